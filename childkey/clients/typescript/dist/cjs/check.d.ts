/** A setting is out of range, or has a name that there is not. */
export declare class ConfigError extends Error {
    readonly name = "ConfigError";
}
/** A call cannot be sent as it is. It was not sent. */
export declare class InvalidCallError extends Error {
    readonly name = "InvalidCallError";
}
/** The longest time of a timer: setTimeout takes a longer one for none at all. */
export declare const MAX_MS: number;
interface Range {
    readonly above?: number;
    readonly least?: number;
    readonly most?: number;
    readonly whole?: boolean;
}
/** Checks that value is a number in a range. */
export declare function checkNumber(name: string, value: unknown, { above, least, most, whole }: Range): void;
/** Checks that an object has no member with another name: a misspelled setting would be ignored. */
export declare function checkNames(what: string, value: object, names: readonly string[]): void;
export {};
