"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.Budget = void 0;
const check_js_1 = require("./check.js");
const FORGET = 60_000; // refused connections count for so long without a further one
const GOLDEN = (Math.sqrt(5) - 1) / 2;
/**
 * Bounds the retries to each service over all calls, so that they do not bury a service that is down. A retry after a
 * refused connection takes nothing, so that all calls outlast a restart. The more calls were refused since the last success,
 * the longer they wait, up to the cap of the backoff.
 */
class Budget {
    /** What a success puts back. */
    ratio;
    #reserve;
    #refill;
    #left = new Map(); // none: all of them
    #refused = new Map();
    #room = 64; // for services, before those that are full are dropped
    /** @throws {ConfigError} */
    constructor(options = {}) {
        (0, check_js_1.checkNames)('budget', options, ['ratio', 'reserve', 'refill']);
        const { ratio = 0.12, reserve = 100, refill = 0.2 } = options;
        (0, check_js_1.checkNumber)('ratio', ratio, { above: 0, most: 1 });
        if (reserve !== Infinity) {
            (0, check_js_1.checkNumber)('reserve', reserve, { least: 1 });
        }
        (0, check_js_1.checkNumber)('refill', refill, { least: 0 });
        this.ratio = ratio;
        this.#reserve = reserve;
        this.#refill = refill;
    }
    /** @internal Takes one retry. Returns false if none is left. */
    take(service, now) {
        const { tokens, at } = this.#left.get(service) ?? { tokens: this.#reserve, at: now };
        const refilled = Math.min(tokens + (Math.max(now - at, 0) / 1000) * this.#refill, this.#reserve);
        const left = refilled < 1 ? refilled : refilled - 1;
        this.#left.set(service, { tokens: left, at: Math.max(at, now) });
        if (this.#left.size > this.#room) {
            for (const [name, old] of this.#left) {
                if (old.tokens + ((now - old.at) / 1000) * this.#refill >= this.#reserve) {
                    this.#left.delete(name);
                }
            }
            this.#room = Math.max(2 * this.#left.size, 64);
        }
        return refilled >= 1;
    }
    /** @internal Books a success. */
    earn(service) {
        this.put(service, this.ratio);
        this.#refused.delete(service);
    }
    /**
     * @internal Counts a call that was refused a connection. Returns the span of its first wait, and what part is taken off. The
     * waits of successive calls end a golden section of the span apart, which spreads any number of them evenly.
     */
    spread(service, most, random, now) {
        let r = this.#refused.get(service);
        if (r === undefined || now - r.last > FORGET) {
            for (const [name, old] of this.#refused) {
                if (now - old.last > FORGET) {
                    this.#refused.delete(name);
                }
            }
            r = { count: 0, first: now, last: now, part: random };
            this.#refused.set(service, r);
        }
        const span = (most / 5) * Math.min(r.count, 5);
        const off = span > 0 ? (r.part + r.count * GOLDEN + (now - r.first) / span) % 1 : r.part;
        r.count++;
        r.last = now;
        return { span, off };
    }
    /** @internal Puts tokens back. A service that never took one is full. */
    put(service, tokens) {
        const left = this.#left.get(service);
        if (left !== undefined) {
            left.tokens = Math.min(left.tokens + tokens, this.#reserve);
            if (left.tokens === this.#reserve) {
                this.#left.delete(service);
            }
        }
    }
}
exports.Budget = Budget;
