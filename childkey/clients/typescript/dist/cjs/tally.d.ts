import type { Outcome, Verdict } from './table.js';
/**
 * What the attempts of one call say together. Unknown is sticky: a later refusal does not speak for an attempt that may
 * have taken effect, unless it proves that no attempt did.
 */
export declare class Tally {
    #private;
    constructor(resumed: boolean);
    get evidence(): string;
    /** Whether an attempt may have taken effect. */
    get maybe(): boolean;
    get outcome(): Outcome;
    add(v: Verdict): void;
}
