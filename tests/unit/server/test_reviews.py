from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from ctrlhost.client import Client
from ctrlhost.server.authentication import Authenticated
from ctrlhost.server.reviews import ALLOW_KEPT, DENY_KEPT, KEPT, RATE, TOKEN_KEPT, Busy, Reviews, Unanswered, User
from tests.support.stub_api_server import Body, Computed, Drop, Failure, Json

TOKENS, RIGHTS = "/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ANN = {"username": "ann", "uid": "1", "groups": ["a", "b"], "extra": {"x": ["y", "z"]}}


def authenticated(user=ANN):
    return Json({"kind": "TokenReview", "status": {"authenticated": True, "user": user}}, 201)


def allowed(answer):
    return Json({"kind": "SubjectAccessReview", "status": {"allowed": answer}}, 201)


def specs(server, path):
    return [json.loads(request.body)["spec"] for request in server.requests if request.path == path]


@pytest.fixture
def transport(server):
    client = Client(server.url)
    yield client.transport
    client.close()


@pytest.fixture
def run(transport, manual_clock):
    """Run a coroutine that gets reviews."""
    return lambda use: asyncio.run(use(Reviews(lambda: transport, manual_clock)))


def test_the_questions_are_those_of_kubernetes(server, run):
    server.on("POST", TOKENS, authenticated())
    server.on("POST", RIGHTS, allowed(True))

    async def use(reviews):
        user = await reviews.authenticate_token("t")
        assert user == User("ann", "1", ("a", "b"), (("x", ("y", "z")),))
        assert await reviews.may(user, "get", "/metrics")

    run(use)
    assert specs(server, TOKENS) == [{"token": "t"}]
    subject = {"user": "ann", "uid": "1", "groups": ["a", "b"], "extra": {"x": ["y", "z"]}}
    assert specs(server, RIGHTS) == [{**subject, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}]


def test_answers_are_kept_for_their_time(server, run, manual_clock):
    server.on("POST", TOKENS, authenticated({"username": "ann"}))
    server.on("POST", RIGHTS, Computed(lambda request: allowed(b"/good" in request.body)))

    async def use(reviews):
        async def after(seconds):
            manual_clock.advance(seconds)
            user = await reviews.authenticate_token("t")
            assert [await reviews.may(user, "get", path) for path in ("/good", "/bad")] == [True, False]
            return len(specs(server, TOKENS)), len(specs(server, RIGHTS))

        assert await after(0) == (1, 2)
        assert await after(DENY_KEPT - 1) == (1, 2)
        assert await after(1) == (1, 3)
        assert await after(TOKEN_KEPT - DENY_KEPT) == (2, 4)
        assert (await after(ALLOW_KEPT - TOKEN_KEPT - 1))[1] == 5
        assert (await after(1))[1] == 6

    run(use)


def test_requests_at_one_time_share_a_question_and_the_first_may_leave(server, run):
    answers = []
    server.on("POST", TOKENS, Computed(lambda _: answers.append(1) or authenticated()))

    async def use(reviews):
        first, *others = [asyncio.ensure_future(reviews.authenticate_token("t")) for _ in range(50)]
        await asyncio.sleep(0)
        first.cancel()
        assert {user.name for user in await asyncio.gather(*others)} == {"ann"}

    run(use)
    assert len(answers) == 1


def test_too_many_questions_are_not_asked(server, run, manual_clock):
    server.on("POST", TOKENS, Json({"status": {"authenticated": False}}, 201))

    async def use(reviews):
        for number in range(RATE - 1):
            assert await reviews.authenticate_token(f"bad-{number}") is None
        with pytest.raises(Busy):
            await reviews.authenticate_token("one more")
        # What is known needs no question.
        assert await reviews.authenticate_token("bad-0") is None
        manual_clock.advance(1.0)
        for number in range(2 * KEPT):
            manual_clock.advance(1.01 / RATE)
            assert await reviews.authenticate_token(f"worse-{number}") is None
        assert len(reviews._users) == KEPT
        # Tokens are kept as digests.
        assert not any("worse" in str(question) or b"worse" in question for question in reviews._users._kept)

    run(use)


def test_a_flood_of_bad_tokens_does_not_lock_out_a_known_one(server, run, manual_clock):
    bad = Json({"status": {"authenticated": False}}, 201)
    server.on("POST", TOKENS, Computed(lambda request: authenticated() if b'"good"' in request.body else bad))

    async def use(reviews):
        assert await reviews.authenticate_token("good")
        manual_clock.advance(TOKEN_KEPT)
        for number in range(5 * RATE):
            with contextlib.suppress(Busy):
                await reviews.authenticate_token(f"bad-{number}")
        with pytest.raises(Busy):
            await reviews.authenticate_token("another")
        assert await reviews.authenticate_token("good")

    run(use)
    assert len(specs(server, TOKENS)) == 1 + RATE


@pytest.mark.parametrize(
    ("answer", "why", "hint"),
    [
        (
            Failure(403, "Forbidden", "cannot create tokenreviews"),
            "cannot create tokenreviews",
            "system:auth-delegator",
        ),
        (Failure(429, "TooManyRequests", retry_after=0), "429", ""),
        (Failure(500, "InternalError"), "500", ""),
        (Body(b"<html>login"), "HTML", ""),
        (Body(b"[]", content_type="application/json"), "not an object", ""),
        (Drop(), "POST", ""),
    ],
)
def test_without_an_answer_nobody_is_allowed_and_the_next_request_asks_again(server, run, answer, why, hint):
    server.on("POST", TOKENS, answer, authenticated())

    async def use(reviews):
        with pytest.raises(Unanswered, match=why) as caught:
            await reviews.authenticate_token("t0ken")
        assert hint in caught.value.hint
        assert "t0ken" not in str(caught.value)
        assert (await reviews.authenticate_token("t0ken")).name == "ann"

    run(use)


@pytest.mark.parametrize("status", [{}, {"authenticated": True}, {"authenticated": True, "user": {"uid": "1"}}, None])
def test_an_answer_without_a_user_is_a_refusal(server, run, status):
    server.on("POST", TOKENS, Json({"kind": "TokenReview", "status": status}, 201))

    async def use(reviews):
        assert await reviews.authenticate_token("t") is None

    run(use)


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def answer_to(app, authorization=None):
    """Return status, headers and body of an answer."""
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": headers, "query_string": b""}
    sent = []

    async def send(message):
        sent.append(message)

    async def ask():
        await app(scope, None, send)

    asyncio.run(ask())
    start, body = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"].decode()


def test_a_host_that_has_no_client_yet_refuses_and_says_so_once(manual_clock, caplog):
    app = Authenticated(hello, Reviews(lambda: None, manual_clock))
    for _ in range(2):
        status, headers, body = answer_to(app, "Bearer t")
        assert (status, headers["retry-after"]) == (503, "5")
        assert json.loads(body).keys() == {"error", "hint"}
    assert len(caplog.records) == 1
    assert "the host has not started yet" in caplog.text


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "t"])
def test_what_is_no_bearer_token_is_not_asked_about(server, transport, manual_clock, header):
    status, headers, _ = answer_to(Authenticated(hello, Reviews(lambda: transport, manual_clock)), header)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert server.requests == []


@pytest.mark.parametrize("header", ["Bearer t", "bearer t", "BEARER  t "])
def test_the_scheme_has_no_case(server, transport, manual_clock, header):
    server.on("POST", TOKENS, authenticated())
    server.on("POST", RIGHTS, allowed(True))
    app = Authenticated(hello, Reviews(lambda: transport, manual_clock))
    assert answer_to(app, header) == (200, {}, "hello")
    assert specs(server, TOKENS) == [{"token": "t"}]
