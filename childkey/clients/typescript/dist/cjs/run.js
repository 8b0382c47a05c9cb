"use strict";
// One call while it is made: attempts, what they mean, and the waits between them.
Object.defineProperty(exports, "__esModule", { value: true });
exports.Run = void 0;
const attempt_js_1 = require("./attempt.js");
const config_js_1 = require("./config.js");
const error_js_1 = require("./error.js");
const failure_js_1 = require("./failure.js");
const headers_js_1 = require("./headers.js");
const problem_js_1 = require("./problem.js");
const table_js_1 = require("./table.js");
const tally_js_1 = require("./tally.js");
const MAX_READ_BYTES = 64 << 10; // of a refusal
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);
class Run {
    #config;
    #call;
    #deadline;
    #tally;
    #attempts = 0;
    #retries = 0;
    #polls = 0;
    #polling = false;
    #paid = false; // the budget paid for the attempt
    #span; // that the waits after refused connections are spread over
    #retryable = false;
    #last;
    #code = '';
    #detail = '';
    #asked = 0;
    /** Begun is when the call began, on the clock of config. */
    constructor(config, call, begun) {
        this.#config = config;
        this.#call = call;
        this.#deadline = begun + Math.min(call.timeout ?? config.timeout, config.timeout);
        this.#tally = new tally_js_1.Tally(call.resumed);
    }
    async loop() {
        if (this.#cancelled) {
            this.#retryable = true;
            throw this.#fail('cancelled', undefined);
        }
        for (;;) {
            const { answer, error, verdict } = await this.#attempt();
            const next = this.#end(verdict);
            if (answer?.response.ok && !answer.cut && verdict !== table_js_1.UNMARKED) {
                this.#config.budget.earn(this.#call.service);
                return (0, error_js_1.rebuild)(answer.response, answer.body, this.#attempts);
            }
            if ('stop' in next) {
                throw this.#fail(verdict === table_js_1.UNMARKED ? 'unmarked' : answer?.response.ok ? 'too-large' : next.stop, error);
            }
            await this.#config.sleep(next.wait, this.#call.signal);
            if (this.#cancelled) {
                this.#takeBack();
                throw this.#fail('cancelled', error);
            }
        }
    }
    async #attempt() {
        this.#attempts++;
        this.#asked = 0;
        const left = this.#deadline - this.#config.clock();
        const ms = Math.max(Math.min(this.#config.attemptTimeout, left), 1);
        try {
            this.#last = await (0, attempt_js_1.attempt)(this.#config.fetch, this.#call, ms, this.#config.maxResponseBytes);
        }
        catch (error) { // whatever was thrown is a row of the table
            return { error, verdict: (0, failure_js_1.ofFailure)(error) };
        }
        return { answer: this.#last, verdict: this.#judge(this.#last) };
    }
    #judge(answer) {
        const { response } = answer;
        this.#code = this.#detail = '';
        const replayed = (0, headers_js_1.flag)(response.headers, headers_js_1.HEADER_REPLAYED);
        let unmarked = this.#config.guarded && this.#call.key !== '' && !SAFE.has(this.#call.method) && replayed === undefined;
        if (response.ok) {
            if (unmarked) {
                return table_js_1.UNMARKED;
            }
            return answer.cut ? table_js_1.TOO_LONG : (0, table_js_1.ofStatus)(response.status);
        }
        const { layer, problem } = this.#readProblem(answer);
        const shouldRetry = (0, headers_js_1.flag)(response.headers, headers_js_1.HEADER_SHOULD_RETRY);
        unmarked &&= layer === '';
        let verdict = (0, table_js_1.ofRefusal)({
            status: response.status, type: response.type, code: layer, replayed, shouldRetry,
            keyed: this.#call.key !== '', resumed: this.#call.resumed,
        });
        if (unmarked && this.#tally.maybe && verdict.action === 'stop') { // a proxy's word, as a 502 is
            verdict = { ...verdict, action: 'retry', evidence: `${verdict.evidence}, and not by the service's guard` };
        }
        const asked = problem !== undefined && problem.retryAfterMs > 0 ? problem.retryAfterMs : (0, headers_js_1.retryAfter)(response.headers, this.#config.now());
        // With other credentials, which whoever begins anew may have, a retry can help after a 401.
        return { ...verdict, retryAfter: asked, notRetryable: shouldRetry === false && response.status !== 401 };
    }
    // readProblem finds out who refused the call, and why. Layer is the code of the idempotency layer, or ''.
    #readProblem({ response, body }) {
        const code = (0, headers_js_1.first)(response.headers, headers_js_1.HEADER_CODE);
        const layer = table_js_1.CODES.has(code) ? code : '';
        const contentType = response.headers.get('Content-Type') ?? '';
        const part = body.subarray(0, MAX_READ_BYTES);
        const problem = (0, problem_js_1.parseProblem)(contentType, part);
        if (problem !== undefined && (layer === '' || layer === problem.code)) {
            this.#code = problem.code;
            this.#detail = (0, problem_js_1.clean)(problem.detail);
            return { layer: problem.code, problem };
        }
        const foreign = (0, problem_js_1.readForeign)(contentType, part);
        this.#code = layer || (table_js_1.CODES.has(foreign.code) ? '' : (0, problem_js_1.clean)(foreign.code));
        this.#detail = (0, problem_js_1.clean)(foreign.detail);
        return { layer, problem: undefined };
    }
    // end adds the end of an attempt. It returns the wait before the next one, or why there is none.
    #end(v) {
        this.#tally.add(v);
        this.#asked = v.retryAfter;
        this.#retryable = v === table_js_1.UNMARKED || (v.action !== 'stop' && !v.notRetryable);
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
    #next(v) {
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
        let own = this.#polling ? (0, config_js_1.waitOf)(c.poll, this.#polls + 1, random) : this.#backOff(v, random);
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
        }
        else if (v.refused !== true && !c.budget.take(this.#call.service, c.clock())) {
            return { stop: 'budget' };
        }
        else {
            this.#retries++;
            this.#paid = v.refused !== true;
        }
        return { wait };
    }
    // backOff returns the wait before a retry. Calls that were refused a connection are spread by their first wait. Later ones
    // are not shorter than its span, and at least half as long as they can be.
    #backOff(v, random) {
        const { backoff, budget, clock } = this.#config;
        const n = this.#retries + 1;
        if (v.refused !== true) {
            return (0, config_js_1.waitOf)(backoff, n, random);
        }
        const left = Math.max(this.#deadline - clock() - 50, 1);
        if (this.#span === undefined) {
            const { span, off } = budget.spread(this.#call.service, backoff.cap, random, clock());
            this.#span = span;
            return (0, config_js_1.lessOf)(backoff, Math.min(Math.max((0, config_js_1.longestOf)(backoff, n), span), left), off);
        }
        if (Math.max((0, config_js_1.longestOf)(backoff, n), this.#span) > left) {
            return (0, config_js_1.lessOf)(backoff, left, random);
        }
        return Math.max((0, config_js_1.waitOf)(backoff, n, random / 2), this.#span);
    }
    // takeBack undoes what next booked for an attempt that will not be made.
    #takeBack() {
        if (!this.#polling && this.#paid) {
            this.#config.budget.put(this.#call.service, 1);
        }
    }
    get #cancelled() {
        return this.#call.signal?.aborted ?? false;
    }
    #fail(reason, error) {
        return new error_js_1.RetryError({
            outcome: this.#tally.outcome, reason, evidence: this.#tally.evidence, attempts: this.#attempts, code: this.#code, detail: this.#detail,
            retryable: this.#retryable, retryAfter: this.#asked, key: this.#call.key,
            response: this.#last && (0, error_js_1.rebuild)(this.#last.response, this.#last.body, this.#attempts),
            cause: reason === 'cancelled' ? this.#call.signal?.reason : error,
        });
    }
}
exports.Run = Run;
