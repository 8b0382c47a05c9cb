"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.Tally = void 0;
/**
 * What the attempts of one call say together. Unknown is sticky: a later refusal does not speak for an attempt that may
 * have taken effect, unless it proves that no attempt did.
 */
class Tally {
    #maybe;
    #rejected = false;
    #completed = false;
    #why;
    constructor(resumed) {
        this.#maybe = resumed;
        this.#why = resumed ? 'an earlier run may have sent it' : 'no attempt was begun';
    }
    get evidence() {
        return this.#why;
    }
    /** Whether an attempt may have taken effect. */
    get maybe() {
        return this.#maybe;
    }
    get outcome() {
        if (this.#completed) {
            return 'Completed';
        }
        return this.#maybe ? 'Unknown' : this.#rejected ? 'Rejected' : 'NotSent';
    }
    add(v) {
        if (this.#completed) {
            return;
        }
        if (v.outcome === 'Completed' || (v.outcome === 'Rejected' && v.proven)) {
            this.#maybe = false;
            this.#rejected = v.outcome === 'Rejected';
            this.#completed = v.outcome === 'Completed';
        }
        else if (v.outcome === 'Unknown') {
            this.#maybe = true;
        }
        else if (this.#maybe || (v.outcome === 'NotSent' && this.#rejected)) {
            return; // it says nothing about the attempts before
        }
        else if (v.outcome === 'Rejected') {
            this.#rejected = true;
        }
        this.#why = v.evidence;
    }
}
exports.Tally = Tally;
