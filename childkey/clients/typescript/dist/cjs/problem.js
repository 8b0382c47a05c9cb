"use strict";
// The body of an answer that is not a success: who refused the call, and why.
Object.defineProperty(exports, "__esModule", { value: true });
exports.parseProblem = parseProblem;
exports.readForeign = readForeign;
exports.clean = clean;
const encoding_js_1 = require("./encoding.js");
const table_js_1 = require("./table.js");
const TYPE_PREFIX = 'https://fanonce.dev/problems/';
const PROBLEM = 'application/problem+json';
const MAX_PROBLEM_BYTES = 16 << 10;
const MAX_TEXT_BYTES = 1 << 10;
/**
 * Returns the problem of an idempotency layer in an answer. It returns undefined if the service or a proxy wrote the
 * answer.
 */
function parseProblem(contentType, body) {
    const members = mediaType(contentType) === PROBLEM ? jsonObject(typeof body === 'string' ? (0, encoding_js_1.utf8)(body) : body) : undefined;
    if (members === undefined) {
        return undefined;
    }
    const text = (name) => (typeof members[name] === 'string' ? members[name] : '');
    const number = (name) => (Number.isInteger(members[name]) ? members[name] : 0);
    const code = text('code');
    if (!table_js_1.CODES.has(code) || text('type') !== TYPE_PREFIX + code) {
        return undefined;
    }
    return {
        type: text('type'), title: text('title'), status: number('status'), detail: text('detail'), instance: text('instance'), code,
        retryable: members.retryable === true, retryAfterMs: number('retry_after_ms'),
    };
}
/** Returns the code and the detail of an answer that is not the idempotency layer's; '' where it has none. */
function readForeign(contentType, body) {
    const media = mediaType(contentType);
    if (media === 'text/plain') {
        return { code: '', detail: new TextDecoder().decode(body).trim() };
    }
    const members = jsonObject(body);
    if (members === undefined) {
        return { code: '', detail: '' };
    }
    if (media === PROBLEM) {
        return { code: textOf(members, ['code']), detail: textOf(members, ['detail']) };
    }
    const inner = [members.error, Array.isArray(members.errors) ? members.errors[0] : undefined].find(isObject);
    if (inner !== undefined) {
        return { code: codeOf(inner, ['code', 'error_code', 'errorCode', 'status', 'type']), detail: detailOf(inner) };
    }
    const code = codeOf(members, ['code', 'error_code', 'errorCode']);
    const error = typeof members.error === 'string' ? members.error : '';
    const sentence = /[ \t\n]/.test(error); // for people, as the name of a status
    return { code: code || (sentence ? '' : error), detail: detailOf(members) || (sentence ? error : '') };
}
/** Returns text without control characters, cut to 1 KiB of UTF-8. */
function clean(text) {
    const bytes = (0, encoding_js_1.utf8)(text.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ')).subarray(0, MAX_TEXT_BYTES);
    return new TextDecoder().decode(bytes, { stream: true }); // a stream leaves out a character that is cut in two
}
function mediaType(contentType) {
    return contentType.split(';', 1)[0].trim().toLowerCase();
}
function jsonObject(body) {
    if (body.length > MAX_PROBLEM_BYTES) {
        return undefined;
    }
    try {
        const value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
        return isObject(value) ? value : undefined;
    }
    catch {
        return undefined;
    }
}
function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
function textOf(members, names) {
    return names.map((name) => members[name]).find((value) => typeof value === 'string' && value !== '') ?? '';
}
function codeOf(members, names) {
    return textOf(members, names) || String(names.map((name) => members[name]).find((value) => typeof value === 'number') ?? '');
}
function detailOf(members) {
    return textOf(members, ['detail', 'message', 'error_description', 'errorMessage', 'title']);
}
