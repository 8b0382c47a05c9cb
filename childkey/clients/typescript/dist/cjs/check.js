"use strict";
// Checks of settings and calls.
Object.defineProperty(exports, "__esModule", { value: true });
exports.MAX_MS = exports.InvalidCallError = exports.ConfigError = void 0;
exports.checkNumber = checkNumber;
exports.checkNames = checkNames;
/** A setting is out of range, or has a name that there is not. */
class ConfigError extends Error {
    name = 'ConfigError';
}
exports.ConfigError = ConfigError;
/** A call cannot be sent as it is. It was not sent. */
class InvalidCallError extends Error {
    name = 'InvalidCallError';
}
exports.InvalidCallError = InvalidCallError;
/** The longest time of a timer: setTimeout takes a longer one for none at all. */
exports.MAX_MS = 2 ** 31 - 1;
/** Checks that value is a number in a range. */
function checkNumber(name, value, { above, least, most, whole }) {
    const ok = typeof value === 'number' && Number.isFinite(value) && (above === undefined || value > above) &&
        (least === undefined || value >= least) && (most === undefined || value <= most) && (!whole || Number.isSafeInteger(value));
    if (!ok) {
        const wants = [whole && 'a whole number', above !== undefined && `more than ${above}`, least !== undefined && `at least ${least}`,
            most !== undefined && `at most ${most}`].filter(Boolean);
        throw new ConfigError(`${name}: ${String(value)}, want ${wants.join(', ')}`);
    }
}
/** Checks that an object has no member with another name: a misspelled setting would be ignored. */
function checkNames(what, value, names) {
    if (typeof value !== 'object' || value === null) {
        throw new ConfigError(`${what}: want an object`);
    }
    for (const name of Object.keys(value)) {
        if (!names.includes(name)) {
            throw new ConfigError(`${what}: no ${name}, there are ${names.join(', ')}`);
        }
    }
}
