// One call while it is made: attempts, what they mean, and the waits between them.

import { type Answer, attempt } from './attempt.js';
import type { Call } from './call.js';
import { type Config, lessOf, longestOf, waitOf } from './config.js';
import { RetryError, type RetryResponse, rebuild, type StopReason } from './error.js';
import { ofFailure } from './failure.js';
import { first, flag, HEADER_CODE, HEADER_REPLAYED, HEADER_SHOULD_RETRY, retryAfter } from './headers.js';
import { clean, type Problem, parseProblem, readForeign } from './problem.js';
import { CODES, ofRefusal, ofStatus, TOO_LONG, UNMARKED, type Verdict } from './table.js';
import { Tally } from './tally.js';

const MAX_READ_BYTES = 64 << 10; // of a refusal
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

interface End {
  readonly answer?: Answer;
  readonly error?: unknown;
  readonly verdict: Verdict;
}

type Next = { readonly wait: number } | { readonly stop: StopReason };

export class Run {
  readonly #config: Config;
  readonly #call: Call;
  readonly #deadline: number;
  readonly #tally: Tally;
  #attempts = 0;
  #retries = 0;
  #polls = 0;
  #polling = false;
  #paid = false; // the budget paid for the attempt
  #span: number | undefined; // that the waits after refused connections are spread over
  #retryable = false;
  #last: Answer | undefined;
  #code = '';
  #detail = '';
  #asked = 0;

  /** Begun is when the call began, on the clock of config. */
  constructor(config: Config, call: Call, begun: number) {
    this.#config = config;
    this.#call = call;
    this.#deadline = begun + Math.min(call.timeout ?? config.timeout, config.timeout);
    this.#tally = new Tally(call.resumed);
  }

  async loop(): Promise<RetryResponse> {
    if (this.#cancelled) {
      this.#retryable = true;
      throw this.#fail('cancelled', undefined);
    }
    for (;;) {
      const { answer, error, verdict } = await this.#attempt();
      const next = this.#end(verdict);
      if (answer?.response.ok && !answer.cut && verdict !== UNMARKED) {
        this.#config.budget.earn(this.#call.service);
        return rebuild(answer.response, answer.body, this.#attempts);
      }
      if ('stop' in next) {
        throw this.#fail(verdict === UNMARKED ? 'unmarked' : answer?.response.ok ? 'too-large' : next.stop, error);
      }
      await this.#config.sleep(next.wait, this.#call.signal);
      if (this.#cancelled) {
        this.#takeBack();
        throw this.#fail('cancelled', error);
      }
    }
  }

  async #attempt(): Promise<End> {
    this.#attempts++;
    this.#asked = 0;
    const left = this.#deadline - this.#config.clock();
    const ms = Math.max(Math.min(this.#config.attemptTimeout, left), 1);
    try {
      this.#last = await attempt(this.#config.fetch, this.#call, ms, this.#config.maxResponseBytes);
    } catch (error) { // whatever was thrown is a row of the table
      return { error, verdict: ofFailure(error) };
    }
    return { answer: this.#last, verdict: this.#judge(this.#last) };
  }

  #judge(answer: Answer): Verdict {
    const { response } = answer;
    this.#code = this.#detail = '';
    const replayed = flag(response.headers, HEADER_REPLAYED);
    let unmarked = this.#config.guarded && this.#call.key !== '' && !SAFE.has(this.#call.method) && replayed === undefined;
    if (response.ok) {
      if (unmarked) {
        return UNMARKED;
      }
      return answer.cut ? TOO_LONG : ofStatus(response.status);
    }
    const { layer, problem } = this.#readProblem(answer);
    const shouldRetry = flag(response.headers, HEADER_SHOULD_RETRY);
    unmarked &&= layer === '';
    let verdict = ofRefusal({
      status: response.status, type: response.type, code: layer, replayed, shouldRetry,
      keyed: this.#call.key !== '', resumed: this.#call.resumed,
    });
    if (unmarked && this.#tally.maybe && verdict.action === 'stop') { // a proxy's word, as a 502 is
      verdict = { ...verdict, action: 'retry', evidence: `${verdict.evidence}, and not by the service's guard` };
    }
    const asked = problem !== undefined && problem.retryAfterMs > 0 ? problem.retryAfterMs : retryAfter(response.headers, this.#config.now());
    // With other credentials, which whoever begins anew may have, a retry can help after a 401.
    return { ...verdict, retryAfter: asked, notRetryable: shouldRetry === false && response.status !== 401 };
  }

  // readProblem finds out who refused the call, and why. Layer is the code of the idempotency layer, or ''.
  #readProblem({ response, body }: Answer): { layer: string; problem: Problem | undefined } {
    const code = first(response.headers, HEADER_CODE);
    const layer = CODES.has(code) ? code : '';
    const contentType = response.headers.get('Content-Type') ?? '';
    const part = body.subarray(0, MAX_READ_BYTES);
    const problem = parseProblem(contentType, part);
    if (problem !== undefined && (layer === '' || layer === problem.code)) {
      this.#code = problem.code;
      this.#detail = clean(problem.detail);
      return { layer: problem.code, problem };
    }
    const foreign = readForeign(contentType, part);
    this.#code = layer || (CODES.has(foreign.code) ? '' : clean(foreign.code));
    this.#detail = clean(foreign.detail);
    return { layer, problem: undefined };
  }

  // end adds the end of an attempt. It returns the wait before the next one, or why there is none.
  #end(v: Verdict): Next {
    this.#tally.add(v);
    this.#asked = v.retryAfter;
    this.#retryable = v === UNMARKED || (v.action !== 'stop' && !v.notRetryable);
    if (v.notRetryable) {
      return { stop: 'not-retryable' };
    }
    if (v.action === 'stop') {
      return { stop: 'answer' };
    }
    if (this.#cancelled) {
      return { stop: 'cancelled' };
    }
    if (this.#config.clock() >= this.#deadline) {
      return { stop: 'deadline' };
    }
    if (!this.#call.safe && v.outcome !== 'NotSent' && v.outcome !== 'Rejected') {
      this.#retryable = false;
      return { stop: 'answer' };
    }
    return this.#next(v);
  }

  #next(v: Verdict): Next {
    const c = this.#config;
    this.#polling = v.action === 'wait';
    const random = c.random();
    if (this.#polling && this.#polls === c.maxPolls) {
      return { stop: 'still-in-progress' };
    }
    if (!this.#polling && this.#retries + 1 >= c.maxAttempts) {
      return { stop: 'attempts' };
    }
    if (v.retryAfter > c.retryAfterCap) {
      return { stop: 'retry-after' };
    }
    let own = this.#polling ? waitOf(c.poll, this.#polls + 1, random) : this.#backOff(v, random);
    const last = this.#deadline - c.clock() - 50; // the wait is chance: it leaves time for an attempt
    if (own > last && last >= 1) {
      own = last;
    }
    // Everybody was told the same time: up to a fifth of it is added.
    const wait = Math.max(own, v.retryAfter * (1 + 0.2 * Math.min(Math.max(c.random(), 0), 1)));
    if (wait >= this.#deadline - c.clock()) {
      return { stop: 'deadline' };
    }
    if (this.#polling) {
      this.#polls++;
    } else if (v.refused !== true && !c.budget.take(this.#call.service, c.clock())) {
      return { stop: 'budget' };
    } else {
      this.#retries++;
      this.#paid = v.refused !== true;
    }
    return { wait };
  }

  // backOff returns the wait before a retry. Calls that were refused a connection are spread by their first wait. Later ones
  // are not shorter than its span, and at least half as long as they can be.
  #backOff(v: Verdict, random: number): number {
    const { backoff, budget, clock } = this.#config;
    const n = this.#retries + 1;
    if (v.refused !== true) {
      return waitOf(backoff, n, random);
    }
    const left = Math.max(this.#deadline - clock() - 50, 1);
    if (this.#span === undefined) {
      const { span, off } = budget.spread(this.#call.service, backoff.cap, random, clock());
      this.#span = span;
      return lessOf(backoff, Math.min(Math.max(longestOf(backoff, n), span), left), off);
    }
    if (Math.max(longestOf(backoff, n), this.#span) > left) {
      return lessOf(backoff, left, random);
    }
    return Math.max(waitOf(backoff, n, random / 2), this.#span);
  }

  // takeBack undoes what next booked for an attempt that will not be made.
  #takeBack(): void {
    if (!this.#polling && this.#paid) {
      this.#config.budget.put(this.#call.service, 1);
    }
  }

  get #cancelled(): boolean {
    return this.#call.signal?.aborted ?? false;
  }

  #fail(reason: StopReason, error: unknown): RetryError {
    return new RetryError({
      outcome: this.#tally.outcome, reason, evidence: this.#tally.evidence, attempts: this.#attempts, code: this.#code, detail: this.#detail,
      retryable: this.#retryable, retryAfter: this.#asked, key: this.#call.key,
      response: this.#last && rebuild(this.#last.response, this.#last.body, this.#attempts),
      cause: reason === 'cancelled' ? this.#call.signal?.reason : error,
    });
  }
}
