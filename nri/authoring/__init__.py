"""Make new plugins: the templates of ``nri new`` and what builds and tries them."""
