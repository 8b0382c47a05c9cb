import { checkNames, checkNumber } from './check.js';
/** Bounds the retries to each service over all calls, so that they do not bury a service that is down. */
export class Budget {
    /** What a success puts back. */
    ratio;
    #reserve;
    #refill;
    #left = new Map();
    /** @throws {ConfigError} */
    constructor(options = {}) {
        checkNames('budget', options, ['ratio', 'reserve', 'refill']);
        const { ratio = 0.12, reserve = 100, refill = 0.2 } = options;
        checkNumber('ratio', ratio, { above: 0, most: 1 });
        checkNumber('reserve', reserve, { least: 1 });
        checkNumber('refill', refill, { least: 0 });
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
        return left !== refilled;
    }
    /** @internal Puts tokens back. A service that never took one is full. */
    put(service, tokens) {
        const left = this.#left.get(service);
        if (left !== undefined) {
            left.tokens = Math.min(left.tokens + tokens, this.#reserve);
        }
    }
}
