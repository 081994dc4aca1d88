"""``python -m mtbench`` is the command ``mtbench``."""

from mtbench.cli.app import main

if __name__ == "__main__":
    main()
