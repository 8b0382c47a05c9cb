import { checkNames, checkNumber } from './check.js';

/** The settings of a {@link Budget}. */
export interface BudgetOptions {
  /** What a success puts back: more than 0, at most 1. The default is 0.12. */
  readonly ratio?: number;
  /** How many retries there are at first, and the most that can be saved. The default is 100. Infinity switches the budget off. */
  readonly reserve?: number;
  /** What a second puts back. The default is 0.2. */
  readonly refill?: number;
}

interface Left {
  tokens: number;
  at: number; // on the clock, in milliseconds
}

// The calls that were refused a connection since the last success.
interface Refused {
  count: number;
  readonly first: number; // when, on the clock
  last: number;
  readonly part: number; // what was taken off the first wait
}

const FORGET = 60_000; // refused connections count for so long without a further one
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/**
 * Bounds the retries to each service over all calls, so that they do not bury a service that is down. A retry after a
 * refused connection takes nothing, so that all calls outlast a restart. The more calls were refused since the last success,
 * the longer they wait, up to the cap of the backoff.
 */
export class Budget {
  /** What a success puts back. */
  readonly ratio: number;
  readonly #reserve: number;
  readonly #refill: number;
  readonly #left = new Map<string, Left>(); // none: all of them
  readonly #refused = new Map<string, Refused>();
  #room = 64; // for services, before those that are full are dropped

  /** @throws {ConfigError} */
  constructor(options: BudgetOptions = {}) {
    checkNames('budget', options, ['ratio', 'reserve', 'refill']);
    const { ratio = 0.12, reserve = 100, refill = 0.2 } = options;
    checkNumber('ratio', ratio, { above: 0, most: 1 });
    if (reserve !== Infinity) {
      checkNumber('reserve', reserve, { least: 1 });
    }
    checkNumber('refill', refill, { least: 0 });
    this.ratio = ratio;
    this.#reserve = reserve;
    this.#refill = refill;
  }

  /** @internal Takes one retry. Returns false if none is left. */
  take(service: string, now: number): boolean {
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
  earn(service: string): void {
    this.put(service, this.ratio);
    this.#refused.delete(service);
  }

  /**
   * @internal Counts a call that was refused a connection. Returns the span of its first wait, and what part is taken off. The
   * waits of successive calls end a golden section of the span apart, which spreads any number of them evenly.
   */
  spread(service: string, most: number, random: number, now: number): { readonly span: number; readonly off: number } {
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
  put(service: string, tokens: number): void {
    const left = this.#left.get(service);
    if (left !== undefined) {
      left.tokens = Math.min(left.tokens + tokens, this.#reserve);
      if (left.tokens === this.#reserve) {
        this.#left.delete(service);
      }
    }
  }
}
