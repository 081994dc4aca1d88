"""From rank counts to metrics, in closed form."""
