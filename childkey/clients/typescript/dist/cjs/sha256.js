"use strict";
// SHA-256 (FIPS 180-4) and HMAC (RFC 2104). A browser has them only as promises, and on pages over plain HTTP not at all.
// A key must be a value that any code can compute, so they are here.
Object.defineProperty(exports, "__esModule", { value: true });
exports.sha256 = sha256;
exports.hmacSha256 = hmacSha256;
exports.concat = concat;
const BLOCK = 64;
// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const K = Uint32Array.of(0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2);
// Likewise of the square roots of the first 8 primes.
const START = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/** Returns the SHA-256 hash of data: 32 bytes. */
function sha256(data) {
    const state = Uint32Array.from(START);
    const schedule = new Uint32Array(64);
    const padded = pad(data);
    for (let at = 0; at < padded.byteLength; at += BLOCK) {
        compress(state, schedule, padded, at);
    }
    const hash = new Uint8Array(32);
    const view = new DataView(hash.buffer);
    state.forEach((word, i) => view.setUint32(4 * i, word));
    return hash;
}
/** Returns the HMAC-SHA-256 of data under secret: 32 bytes. */
function hmacSha256(secret, data) {
    const key = new Uint8Array(BLOCK);
    key.set(secret.length > BLOCK ? sha256(secret) : secret);
    const inner = sha256(concat([key.map((b) => b ^ 0x36), data]));
    return sha256(concat([key.map((b) => b ^ 0x5c), inner]));
}
/** Returns the parts, one after the other. */
function concat(parts) {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}
// pad appends the bit 1, zeros, and the length in bits as 64-bit number, up to a whole block.
function pad(data) {
    const padded = new Uint8Array(Math.ceil((data.length + 9) / BLOCK) * BLOCK);
    padded.set(data);
    padded[data.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
    view.setUint32(padded.length - 4, data.length << 3);
    return view;
}
const rotate = (word, by) => (word >>> by) | (word << (32 - by));
function compress(state, w, block, at) {
    for (let t = 0; t < 16; t++) {
        w[t] = block.getUint32(at + 4 * t);
    }
    for (let t = 16; t < 64; t++) {
        const [x, y] = [w[t - 15], w[t - 2]];
        const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
        const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1; // a Uint32Array keeps the low 32 bits
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
        const sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const t1 = (h + sum1 + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
        const sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const t2 = (sum0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] = state[i] + word; });
}
