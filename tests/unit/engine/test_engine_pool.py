"""Which engine serves a session."""

from polar_capture.engine.pool import Pool

URLS = [f"http://gpu{i}:8000" for i in range(4)]
SESSIONS = [f"s{i}" for i in range(200)]


async def never(_upstream):
    return False


def owners(pool: Pool) -> dict[str, str]:
    return {session: pool.choose(session).url for session in SESSIONS}


def test_a_session_stays_with_one_engine_and_all_engines_get_some():
    first, second = owners(Pool(URLS)), owners(Pool(reversed(URLS)))
    assert first == second
    assert {url: list(first.values()).count(url) > 20 for url in URLS} == dict.fromkeys(URLS, True)


async def test_a_lost_engine_moves_only_its_own_sessions_and_gets_them_back():
    pool = Pool(URLS)
    before = owners(pool)
    lost = pool.upstreams[1]
    pool.down(lost, "refused", never)
    during = owners(pool)
    assert lost.url not in during.values()
    assert all(during[s] == before[s] for s in SESSIONS if before[s] != lost.url)
    pool.up(lost)
    assert owners(pool) == before
    await pool.close()


async def test_with_none_healthy_any_is_tried_until_all_were():
    pool = Pool(URLS[:2])
    for upstream in pool.upstreams:
        pool.down(upstream, "refused", never)
    tried = []
    while (upstream := pool.choose("s", tried)) is not None:
        tried.append(upstream)
    assert {u.url for u in tried} == set(URLS[:2])
    await pool.close()


def test_calls_of_no_session_go_to_the_least_busy():
    pool = Pool(URLS[:2])
    pool.upstreams[0].running = 3
    assert pool.choose("") is pool.upstreams[1]


async def test_an_engine_that_answers_again_is_healthy_again():
    pool = Pool(URLS[:1], interval=0.001)
    answers = iter([False, True])
    pool.upstreams[0].checked = True

    async def revive(_upstream):
        return next(answers)

    pool.down(pool.upstreams[0], "refused", revive)
    await pool._watcher
    assert pool.upstreams[0].healthy
