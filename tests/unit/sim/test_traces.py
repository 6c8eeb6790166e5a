"""Trace files of each format, and a sentence for each file that is none."""

from pathlib import Path

import pytest

from modelfleet.sim.traces import Choice, Trace, TraceError, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
RATES = "model,window_start_s,rate_rps,active_clients,rate_weighted_cv,top_client_share\n"
LENGTHS = "model,window_start_s,field,clients,mean,p50,p90,p99,max_bin\n"


def read(folder: Path, text: str, choice: Choice | None = None, name: str = "trace.csv") -> Trace:
    path = folder / name
    path.write_text(text)
    return read_trace(path, choice or Choice(), 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            AZURE + "2023-11-16 18:17:03.9799600,100,10\n2023-11-16 18:17:05.4799600,200,20\n", id="Azure, 2023"
        ),
        pytest.param(
            AZURE + "2024-05-10 00:00:00.009930+00:00,100,10\n2024-05-10 00:00:01.509930+00:00,200,20\n",
            id="Azure, 2024",
        ),
        pytest.param(
            AZURE + "2024-05-10 00:00:00+00:00,100,10\n2024-05-10 00:00:01.500000,200,20\n",
            id="a time without a zone is UTC",
        ),
        pytest.param(
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,100,10,110,x\n"
            "6.5,GPT-4,200,20,220,x\n",
            id="BurstGPT",
        ),
        pytest.param(
            '{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": []}\n'
            '{"timestamp": 1500, "input_length": 200, "output_length": 20, "hash_ids": []}\n',
            id="Mooncake, in milliseconds",
        ),
        pytest.param("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,10\n1.5,200,20\n", id="Vidur"),
        pytest.param("arrival_s,input_tokens,output_tokens\n8.5,200,20\n7,100,10\n", id="rows in any order"),
    ],
)
def test_requests_of_a_file(text: str, tmp_path: Path) -> None:
    trace = read(tmp_path, text)

    assert [(round(one.arrival_s, 6), one.input_tokens, one.output_tokens) for one in trace.requests] == [
        (0.0, 100, 10),
        (1.5, 200, 20),
    ]
    notes = ("timestamp is read as milliseconds",) if '"timestamp"' in text else ()
    assert (trace.duration_s, trace.notes) == (pytest.approx(1.5), notes)


@pytest.mark.parametrize(
    "text, sentence",
    [
        pytest.param("", "it has no rows; give a CSV with a header, or JSON lines", id="an empty file"),
        pytest.param(AZURE, "it has no rows", id="a header alone"),
        pytest.param("a,b\n1,2\n", "no columns of arrivals and tokens among a, b", id="other columns"),
        pytest.param(AZURE + "yesterday,1,2\n", "row 2: TIMESTAMP is 'yesterday', which is no time", id="no time"),
        pytest.param(AZURE + "nan,1,2\n", "row 2: TIMESTAMP is 'nan', which is no time", id="not a number"),
        pytest.param(AZURE + "1,1,2\n2,x,2\n", "row 3: 'x' is no number of tokens", id="no number of tokens"),
        pytest.param(AZURE + "1,1,2\n2,inf,2\n", "row 3: 'inf' is no number of tokens", id="endless tokens"),
        pytest.param(AZURE + "1,1,2\n2,1,-2\n", "row 3: '-2' is no number of tokens", id="negative tokens"),
        pytest.param(AZURE + "1,1\n", "row 2: nothing is no number of tokens", id="a short row"),
        pytest.param(AZURE + "1,1,2\n", "fewer than two requests", id="one request"),
        pytest.param(AZURE + "1,1,2\n1,1,2\n", "fewer than two requests", id="all at one moment"),
        pytest.param('{"a": 1}\n{"a"\n', "line 2: ", id="broken JSON"),
        pytest.param('{"a": 1}\n[1]\n', "line 2: it is not a JSON object", id="JSON of another kind"),
        pytest.param(RATES + "m,0,x,1,1,1\n", "a window has a start and a rate", id="a rate that is no number"),
        pytest.param(RATES + "m,0,-1,1,1,1\n", "a window has a start and a rate", id="a negative rate"),
        pytest.param(RATES + "m,0,1,1,1,1\n", "m has fewer than two windows", id="one window"),
        pytest.param(RATES + "m,0,0,1,1,1\nm,600,0,1,1,1\n", "m has fewer than two requests", id="no load at all"),
        pytest.param(RATES + "m,0,1,1,1,1\nm,0,1,1,1,1\n", "start together", id="two windows at one time"),
        pytest.param(
            '{"model": "m", "window_start_s": 0, "rate_rps": 1}\n{"model": "m", "rate_rps": 1}\n',
            "a row lacks 'window_start_s'; a window has a start",
            id="a window without a start",
        ),
        pytest.param(AZURE + "1,1,2\n1e11,1,2\n", "hours, and 1440 can be played", id="three thousand years"),
    ],
)
def test_a_file_that_is_no_trace_gets_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv[:,] ") as fault:
        read(tmp_path, text)

    assert sentence in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_series_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no series c; it has a, b"):
        read(tmp_path, RATES + "a,0,1,1,1,1\nb,0,1,1,1,1\n", Choice(series="c"))
    with pytest.raises(TraceError, match="it has one series only"):
        read(tmp_path, AZURE + "1,1,2\n2,1,2\n", Choice(series="c"))


def test_hours_cut_a_piece_out(tmp_path: Path) -> None:
    rows = "".join(f"{minute * 60},{minute + 1},1\n" for minute in range(240))
    trace = read(tmp_path, AZURE + rows, Choice(from_hour=1, hours=0.5))

    assert [one.input_tokens for one in trace.requests] == list(range(61, 91))
    assert trace.duration_s == 29 * 60


@pytest.mark.parametrize("scale, count", [(2.0, 2000), (0.5, 500), (1.5, 1500)])
def test_a_scale_multiplies_the_rate_and_is_said(scale: float, count: int, tmp_path: Path) -> None:
    rows = "".join(f"{second},10,1\n" for second in range(1000))
    trace = read(tmp_path, AZURE + rows, Choice(scale=scale))

    assert len(trace.requests) == pytest.approx(count, rel=0.1)
    assert trace.duration_s == 999
    assert [one.arrival_s for one in trace.requests] == sorted(one.arrival_s for one in trace.requests)
    assert trace.notes == (f"the rate times {scale:g}",)


def test_a_long_trace_is_thinned_and_it_is_said(tmp_path: Path) -> None:
    rows = "".join(f"{at},9,1\n" for at in range(5000))
    trace = read(tmp_path, "arrival_s,input_tokens,output_tokens\n" + rows, Choice(most_requests=1000))

    assert len(trace.requests) == pytest.approx(1000, rel=0.1)
    assert trace.requests[-1].arrival_s > 4900
    assert trace.notes == ("the rate times 0.2, so that 1000 requests are left; --scale says otherwise",)


def test_rates_become_arrivals_with_the_lengths_beside_them(tmp_path: Path) -> None:
    (tmp_path / "servegen_token_lengths_6h.csv").write_text(
        LENGTHS + "m,0,input_tokens,1,9,100,100,100,9\nm,0,output_tokens,1,9,50,50,50,9\n"
    )
    rates = RATES + "m,0,2,1,1,1\nm,600,0,1,1,1\nm,1200,4,1,2.5,1\n"
    trace = read(tmp_path, rates)

    first, gap, last = (sum(start <= one.arrival_s < start + 600 for one in trace.requests) for start in (0, 600, 1200))
    assert (first, gap, last) == (pytest.approx(1200, rel=0.15), 0, pytest.approx(2400, rel=0.25))
    assert trace.duration_s == 1800
    assert max(one.input_tokens for one in trace.requests) == 100
    assert trace.notes == ("series m", "3 windows from hour 0 on", "no requests in 1 windows without a rate")
    assert read(tmp_path, rates).requests == trace.requests


def test_lengths_of_another_series_are_a_fault(tmp_path: Path) -> None:
    lengths = tmp_path / "lengths.csv"
    lengths.write_text(LENGTHS + "other,0,input_tokens,1,9,100,100,100,9\n")
    with pytest.raises(TraceError, match="it has no lengths of m"):
        read(tmp_path, RATES + "m,0,2,1,1,1\nm,600,2,1,1,1\n", Choice(lengths=lengths))
    with pytest.raises(TraceError, match="there is no such file"):
        read(tmp_path, RATES + "m,0,2,1,1,1\nm,600,2,1,1,1\n", Choice(lengths=tmp_path / "none"))


@pytest.mark.parametrize(
    "lengths, sentence",
    [
        pytest.param(b"\xff\xfe\x00", "it is not text; give a CSV or JSON-lines file of length", id="no text"),
        pytest.param(b"", "it has no rows", id="an empty file"),
        pytest.param(LENGTHS.encode() + b"m,0,input_tokens,1,9,nan,100,100,9\n", "nan", id="not a number"),
        pytest.param(LENGTHS.encode() + b"m,0,input_tokens,1,9,1,100,inf,9\n", "inf", id="endless"),
        pytest.param(
            b'{"model": "m", "window_start_s": 0, "field": "input_tokens", "p50": 1, "p90": 2, "p99": 3}\n'
            b'{"window_start_s": 0, "field": "output_tokens", "p50": 1, "p90": 2, "p99": 3}\n',
            "a row lacks 'model'",
            id="a row without a series",
        ),
    ],
)
def test_a_file_that_is_none_of_lengths_gets_a_sentence(lengths: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_bytes(lengths)
    with pytest.raises(TraceError, match=r"lengths\.csv: ") as fault:
        read(tmp_path, RATES + "m,0,2,1,1,1\nm,600,1,1,1,1\n", Choice(lengths=tmp_path / "lengths.csv"))

    assert sentence in str(fault.value)
    assert "\n" not in str(fault.value)


def test_lengths_for_requests_that_have_their_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="lengths of their own; leave --lengths-file out"):
        read(tmp_path, AZURE + "1,1,2\n2,1,2\n", Choice(lengths=tmp_path / "lengths.csv"))


def test_a_unit_that_the_column_alone_tells_is_said(tmp_path: Path) -> None:
    rows = '{"timestamp": 0, "input_length": 1, "output_length": 1}\n'
    trace = read(tmp_path, rows + rows.replace("0,", "1500,", 1))

    assert trace.duration_s == 1.5
    assert trace.notes == ("timestamp is read as milliseconds",)
