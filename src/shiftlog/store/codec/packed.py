"""Small documents, such as bodies of imported entries, compressed one by one against a shared dictionary.

The first byte tells the form, so that plain JSON (which begins with a brace) and packed documents stand side by side.
A dictionary never changes; a better one gets the next number (`scripts/make_dictionary.py`). The second has tables of
how often letters occur too, which a short document would otherwise bring along, and its documents lack zstd's four
bytes of introduction.
"""

import threading
from pathlib import Path

import zstandard

MARK = b"\x01"
SECOND = MARK + b"\x02"  # the first dictionary's documents go on with zstd's own mark, which begins otherwise
WORTHWHILE_BYTES = 192
LEVEL = 3
TYPICAL_BYTES = 4096

_WORDS = (
    b'{"add":{"context_list":["src/"],"files_modified":[],"design_decisions":[],"blockers":[],"commits":[{'
    b'"branch":"main","message":"","sha":""}]},"set":{"interpretation":"","model":"claude-opus-4-6"}}{"imp'
    b'orted":true,"opened_by":"prompt","query_text":"","query_title":"","vendor_turn_id":""}{"call_id":"",'
    b'"description":"Applied patch to ","diff":"--- a/\\n+++ b/\\n@@ -1,10 +1,10 @@\\n-    def (self) -> None'
    b':\\n+    return \\n","file_path":"","order":1,"status":"completed","type":"edit"}{"cache_creation_toke'
    b'ns":,"cached_input_tokens":,"input_tokens":,"model":"gpt-5-codex","output_tokens":,"reasoning_tokens'
    b'":,"vendor":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_c'
    b'reation_input_tokens":,"cache_read_input_tokens":,"input_tokens":,"output_tokens":,"service_tier":"s'
    b'tandard"}}import from return self. None True False class def function const let var if else for whil'
    b"e in not and or is error the to of a that this it with as be are was will have has on at by should f"
    b'ile test run line code user value name {"category":"reasoning","content":"","record":{"block":1,"mes'
    b'sage_id":"msg_01","parent_uuid":"","request_id":"req_011C","uuid":""},"role":"model","timestamp":"20'
    b'26-01-01T00:00:00Z"}{"call_id":"call_","category":"tool_call","content":"shell: ","input":{"command"'
    b':["bash","-lc","sed -n \'1,200p\' "]},"role":"tool","timestamp":"2026-","tool":"shell"}{"call_id":"too'
    b'lu_01","category":"tool_call","content":"Bash: ","input":{"command":"cd && git status && grep -rn ",'
    b'"description":"","file_path":"/home/","old_string":"","new_string":"","pattern":""},"record":{"messa'
    b'ge_id":"msg_01","parent_uuid":"","request_id":"req_01","uuid":""},"role":"tool","timestamp":"2026-",'
    b'"tool":"Edit"}{"call_id":"toolu_01","category":"tool_result","content":"The file has been updated su'
    b'ccessfully.\\n","exit_code":0,"is_error":true,"record":{"parent_uuid":"","uuid":""},"role":"tool","ti'
    b'mestamp":"2026-","tool":"Read"}{"category":"observation","content":"","record":{"message_id":"msg_01'
    b'","parent_uuid":"","request_id":"req_01","uuid":""},"role":"model","timestamp":"2026-'
)
_FIRST_DICTIONARY = zstandard.ZstdCompressionDict(_WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
_SECOND_DICTIONARY = zstandard.ZstdCompressionDict(
    Path(__file__).with_name("packed_2.zdict").read_bytes(), dict_type=zstandard.DICT_TYPE_FULLDICT
)


class _DocumentCoders(threading.local):
    """Compressors for each thread: they cannot be shared."""

    def __init__(self) -> None:
        # Without the typical size the tables of a compressor are as large as for megabytes, and slower.
        parameters = zstandard.ZstdCompressionParameters.from_level(  # pyright: ignore[reportUnknownMemberType]
            LEVEL,
            source_size=TYPICAL_BYTES,
            dict_size=len(_SECOND_DICTIONARY),
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_dict_id=False,
        )
        self.pack = zstandard.ZstdCompressor(dict_data=_SECOND_DICTIONARY, compression_params=parameters).compress
        self.unpack_first = zstandard.ZstdDecompressor(dict_data=_FIRST_DICTIONARY).decompress
        self.unpack_second = zstandard.ZstdDecompressor(
            dict_data=_SECOND_DICTIONARY, format=zstandard.FORMAT_ZSTD1_MAGICLESS
        ).decompress


_coders = _DocumentCoders()


def packed(document: bytes) -> bytes:
    """Return a document as it is stored: compressed if that makes it smaller."""
    if len(document) < WORTHWHILE_BYTES:
        return document
    made = SECOND + _coders.pack(document)
    return made if len(made) < len(document) else document


def unpacked(data: bytes) -> bytes:
    """Return the JSON text of a stored document; raise ZstdError for a damaged one."""
    if data[:1] != MARK:
        return data
    return _coders.unpack_second(data[2:]) if data[:2] == SECOND else _coders.unpack_first(data[1:])
