"""Documents that are nearly right, for hypothesis: see ``fuzz.documents``."""

from hypothesis import strategies as st

from fuzz.documents import WORDS

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 4000),
    st.sampled_from(
        [2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 10**30, 0.5, -0.0, 1.0, 1e3, 3600.5, 1e300]
    ),
    st.sampled_from(WORDS),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=6,
)
