"""The base class of a plugin: its type, one method, and its description."""

from __future__ import annotations

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.types.conf import Conf
    from nri.types.v1 import Request, Result

    ConfClass = type[Conf] | None  # in the class, `type` is the plugin's

NO_INVOKE = "defines no method invoke(self, request)"


class Refusal(NRIError):  # noqa: N818 - it is an answer
    """An answer of a plugin that works: this container may not have what it asks for, or asks wrongly for it.

    The container does not start, as after any error, but the node stays healthy. The message is for the pod's owner,
    and says what the pod asked for, what the plugin found, and what would be right.
    """


class Plugin:
    """The base of a plugin. A subclass sets ``type`` and defines ``invoke``.

    :cvar type: the plugin's name: that of its executable, and the ``type`` of its entry in the host configuration.
    :cvar version: its own version, which ``TYPE version`` prints.
    :cvar description: a description in a line or two, which ``TYPE --help`` prints.
    :cvar conf_class: the class of the plugin conf, a ``Conf``. ``invoke`` then gets an object of it, and a wrong conf
        is an error of the plugin before that.
    :cvar conf_schema: a JSON Schema (2020-12) of the plugin conf, for ``TYPE schema`` and ``nri check``; it is not
        applied when the plugin runs. Without one it is that of ``conf_class``.
    :cvar acts_on: the states that the plugin acts on, as ``TYPE version`` says; others are answered with an empty
        result, and ``nri check`` reports an entry that gets none of them. Empty for a plugin that is asked in every
        state.
    :cvar releases: True for a plugin that gives back what it did for a container that runs on: it then gets a
        ``delete`` with ``Request.release``, whatever ``acts_on`` says. ``TYPE version`` prints it.
    :cvar create_suffices: True for a plugin of ``setup`` whose ``create`` does all that a missed ``setup`` would
        have done: such a container may start. ``TYPE version`` prints it.
    :cvar grants: True for a plugin that extends a container, for example by a device: where the host does not know
        whether the condition of its entry holds, ``invoke`` is not called. ``TYPE version`` prints it.
    :cvar needs: extensions of the contract that the plugin needs at ``setup``; without one of them, a ``setup`` is
        an error. ``("configuration",)`` is for a plugin that reads what not every host shows, such as
        ``capabilities`` in ``spec.process`` (docs/spec.md, "What setup shows").
    :cvar resident: whether one process of the compiled plugin may answer request after request
        (docs/writing-a-plugin.md, "Residents"). A request must leave nothing behind that another one would notice: no
        changed globals, modules or attributes of a class. Each request gets a copy of the plugin.
    :cvar uses: modules that ``invoke`` imports late; a resident loads them before its first request.
    """

    type: str = ""
    version: str = ""
    description: str = ""
    conf_class: ConfClass = None
    conf_schema: dict[str, Any] | None = None
    acts_on: tuple[str, ...] = ()
    releases: bool = False
    create_suffices: bool = False
    grants: bool = False
    needs: tuple[str, ...] = ()
    resident: bool = False
    uses: tuple[str, ...] = ()

    def invoke(self, request: Request, *args: Any, **kwargs: Any) -> Result:
        """Do the plugin's work for one step of a container's life, ``request.state``.

        A plugin defines ``invoke(self, request)``, or ``invoke(self, request, conf)`` if it has a ``conf_class``.
        For a state that it does not handle, it returns ``request.new_result(self.type)``. The class and message of an
        exception become the result's ``error``, and its traceback goes to stderr; of an
        ``nri.errors.NRIError`` only the message is reported. A ``Refusal`` makes it a refusal.
        """
        raise NRIError(f"class {type(self).__name__} {NO_INVOKE}")

    def faults(self, conf: Any) -> Iterable[dict[str, Any]]:
        """Return what is wrong on this machine, for ``TYPE check`` and ``nri check``.

        :param conf: an object of ``conf_class``, which is right as far as that tells.
        :returns: for each fault an object with ``message``, one line; for one in a file of JSON also ``file``, its
            path, ``path``, the keys and indices that lead there, and ``atKey``, whether the key is wrong.
        """
        return ()

    def notes(self, conf: Any) -> Iterable[str]:
        """Return what an operator should know of the conf on this machine, one line each, as for ``faults``."""
        return ()
