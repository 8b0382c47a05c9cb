"use strict";
// The settings of a client. Every time is in milliseconds.
Object.defineProperty(exports, "__esModule", { value: true });
exports.configure = configure;
exports.waitOf = waitOf;
exports.longestOf = longestOf;
exports.lessOf = lessOf;
const abort_js_1 = require("./abort.js");
const budget_js_1 = require("./budget.js");
const check_js_1 = require("./check.js");
const OPTIONS = [
    'fetch', 'guarded', 'maxAttempts', 'backoff', 'poll', 'maxPolls', 'retryAfterCap', 'timeout', 'attemptTimeout', 'budget', 'maxResponseBytes', 'random',
    'now', 'clock', 'sleep',
];
const FUNCTIONS = ['fetch', 'random', 'now', 'clock', 'sleep'];
/** Returns the settings with their defaults. @throws {ConfigError} */
function configure(options) {
    (0, check_js_1.checkNames)('options', options, OPTIONS);
    const { guarded = true, maxAttempts = 10, maxPolls = 60, retryAfterCap = 60_000, timeout = 60_000, maxResponseBytes = 8 << 20, budget = new budget_js_1.Budget() } = options;
    const { attemptTimeout = Math.min(20_000, timeout) } = options;
    (0, check_js_1.checkNumber)('maxAttempts', maxAttempts, { least: 1, whole: true });
    (0, check_js_1.checkNumber)('maxPolls', maxPolls, { least: 1, whole: true });
    (0, check_js_1.checkNumber)('maxResponseBytes', maxResponseBytes, { least: 1, whole: true });
    (0, check_js_1.checkNumber)('retryAfterCap', retryAfterCap, { above: 0, most: check_js_1.MAX_MS });
    (0, check_js_1.checkNumber)('timeout', timeout, { above: 0, most: check_js_1.MAX_MS });
    (0, check_js_1.checkNumber)('attemptTimeout', attemptTimeout, { above: 0, most: check_js_1.MAX_MS });
    if (typeof guarded !== 'boolean') {
        throw new check_js_1.ConfigError('guarded: want a boolean');
    }
    if (!(budget instanceof budget_js_1.Budget)) {
        throw new check_js_1.ConfigError('budget: want a Budget');
    }
    for (const name of FUNCTIONS) {
        if (options[name] !== undefined && typeof options[name] !== 'function') {
            throw new check_js_1.ConfigError(`${name}: want a function`);
        }
    }
    const { fetch = (url, init) => globalThis.fetch(url, init), random = Math.random, now = Date.now, clock = () => performance.now(), sleep = pause, } = options;
    return {
        fetch, guarded, maxAttempts, maxPolls, retryAfterCap, timeout, attemptTimeout, budget, maxResponseBytes, random, now, clock, sleep,
        backoff: checkBackoff('backoff', options.backoff, 5000), poll: checkBackoff('poll', options.poll, 2000),
    };
}
function checkBackoff(name, backoff = {}, longest) {
    (0, check_js_1.checkNames)(name, backoff, ['base', 'cap', 'jitter']);
    const { base = Math.min(100, backoff.cap ?? 100), jitter = 1 } = backoff;
    const { cap = Math.max(longest, base) } = backoff;
    (0, check_js_1.checkNumber)(`${name}.base`, base, { above: 0, most: check_js_1.MAX_MS });
    (0, check_js_1.checkNumber)(`${name}.cap`, cap, { least: base, most: check_js_1.MAX_MS });
    (0, check_js_1.checkNumber)(`${name}.jitter`, jitter, { above: 0, most: 1 });
    return { base, cap, jitter };
}
/** Returns the wait before retry n, which counts from 1. */
function waitOf(backoff, n, random) {
    return lessOf(backoff, longestOf(backoff, n), random);
}
/** Returns the wait before retry n without its random part. */
function longestOf(backoff, n) {
    return Math.min(backoff.base * 2 ** (Math.min(n, 64) - 1), backoff.cap);
}
/** Takes the random part off a wait. */
function lessOf(backoff, wait, random) {
    return Math.max(wait - wait * Math.min(Math.max(backoff.jitter * random, 0), 1), 1);
}
function pause(ms, signal) {
    return new Promise((resolve) => {
        const end = () => {
            clearTimeout(timer);
            forget();
            resolve();
        };
        const timer = setTimeout(end, ms);
        const forget = (0, abort_js_1.onAbort)(signal, end);
        if (signal?.aborted) { // then no event comes
            end();
        }
    });
}
