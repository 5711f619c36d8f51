"""Third-party packages, found when they are imported: a search at the start takes most of Python's startup time."""

import sys


class SiteFinder(object):
    """Called last, for modules that no other finder knows: only then is `site` run, which finds installed packages."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Called by `importlib`."""
        if path is not None or 'site' in sys.modules:
            return None
        before = list(sys.path)
        import site
        site.main()
        sys.path[:] = before + [each for each in sys.path if each not in before]
        from importlib.machinery import PathFinder
        return PathFinder.find_spec(name, path, target)


def install():
    """For an interpreter that was started with `-S`."""
    if sys.flags.no_site:
        sys.meta_path.append(SiteFinder)
