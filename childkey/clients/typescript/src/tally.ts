import type { Outcome, Verdict } from './table.js';

/**
 * What the attempts of one call say together. Unknown is sticky: a later refusal does not speak for an attempt that may
 * have taken effect, unless it proves that no attempt did.
 */
export class Tally {
  #maybe: boolean;
  #rejected = false;
  #completed = false;
  #why: string;

  constructor(resumed: boolean) {
    this.#maybe = resumed;
    this.#why = resumed ? 'an earlier run may have sent it' : 'no attempt was begun';
  }

  get evidence(): string {
    return this.#why;
  }

  /** Whether an attempt may have taken effect. */
  get maybe(): boolean {
    return this.#maybe;
  }

  get outcome(): Outcome {
    if (this.#completed) {
      return 'Completed';
    }
    return this.#maybe ? 'Unknown' : this.#rejected ? 'Rejected' : 'NotSent';
  }

  add(v: Verdict): void {
    if (this.#completed) {
      return;
    }
    if (v.outcome === 'Completed' || (v.outcome === 'Rejected' && v.proven)) {
      this.#maybe = false;
      this.#rejected = v.outcome === 'Rejected';
      this.#completed = v.outcome === 'Completed';
    } else if (v.outcome === 'Unknown') {
      this.#maybe = true;
    } else if (this.#maybe || (v.outcome === 'NotSent' && this.#rejected)) {
      return; // it says nothing about the attempts before
    } else if (v.outcome === 'Rejected') {
      this.#rejected = true;
    }
    this.#why = v.evidence;
  }
}
