"""Random texts that are full of what redaction looks for, for property tests."""

from hypothesis import strategies as st

from tests.guard.secrets.corpus import CASES

_PIECES = """
= : " ' ` , ; ( ) [ ] { } < > @ :// $ ${ \\n \\" \\ - -- -p # % & é 日本 😀 password token secret= api_key: Bearer
Authorization: Cookie:a=b [REDACTED] [REDACTED:password] export AKIA eyJ sk- value: hunter2 ACME-12345 ***
""".split()
_BLOCKS = (
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "\nA=1\nB=2\n",
    "\n- name: X_TOKEN\n",
    "\ud800",
)
_FRAGMENTS = st.one_of(
    st.integers(0, len(CASES) - 1).map(lambda index: CASES[index].text),
    st.sampled_from(_PIECES),
    st.sampled_from(_BLOCKS),
    st.text(max_size=20),
)


def suspicious_texts(max_fragments: int = 14) -> st.SearchStrategy[str]:
    """Draw texts put together from the corpus, from triggers and from anything."""
    return st.lists(_FRAGMENTS, max_size=max_fragments).map("".join)
