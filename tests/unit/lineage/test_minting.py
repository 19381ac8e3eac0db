from polar_capture.lineage.minting import Minter

CALL = "0199f3a0-1111-7222-8333-444455556666"


def test_ids_are_those_of_the_call_and_distinct():
    minter = Minter(CALL)
    minted = [
        minter.id("msg_"),
        minter.id("call_"),
        minter.id("call_"),
        minter.opaque("thinking-0"),
        minter.opaque("t-1"),
    ]
    assert len(set(minted)) == len(minted)
    assert minter.minted == minted
    assert all(len(i) <= 64 for i in minted[:3])


def test_composing_twice_gives_the_same_ids_and_other_calls_others():
    def ids(call: str) -> list[str]:
        minter = Minter(call)
        return [minter.id("toolu_"), minter.id("toolu_"), minter.opaque("x")]

    assert ids(CALL) == ids(CALL)
    assert not set(ids(CALL)) & set(ids(CALL[:-1] + "7"))
