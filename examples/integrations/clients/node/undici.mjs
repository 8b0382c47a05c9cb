import { Agent, request, RetryAgent } from 'undici';

export const defaults = (url) => {
  const dispatcher = new RetryAgent(new Agent());
  return (key, amount) => post(dispatcher, url, key, amount);
};

export const recommended = (url) => {
  const agent = new Agent({ headersTimeout: 10_000, bodyTimeout: 10_000 }); // of one attempt
  const dispatcher = new RetryAgent(agent, {
    methods: ['POST'],
    statusCodes: [408, 409, 429, 500, 502, 503, 504],
    errorCodes: [
      'ECONNRESET', 'ECONNREFUSED', 'ENOTFOUND', 'ENETDOWN', 'ENETUNREACH', 'EHOSTDOWN', 'EHOSTUNREACH', 'EPIPE',
      'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT',
    ],
    maxRetries: 10,
    minTimeout: 100,
    maxTimeout: 2_000,
  });
  return async (key, amount) => {
    for (let left = 3; ; left--) {
      try {
        return await post(dispatcher, url, key, amount);
      } catch (error) {
        // A RetryAgent asks for the rest of a cut answer with Range, which a service of POSTs does not know. Such a
        // call is made again, under the same key. A refusal is final here: the agent has retried it.
        if (left === 0 || error.statusCode >= 300) throw error;
      }
    }
  };
};

async function post(dispatcher, url, key, amount) {
  const { statusCode, body } = await request(`${url}/charges`, {
    dispatcher,
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
    body: JSON.stringify({ amount }),
  });
  const text = await body.text();
  if (statusCode !== 200) {
    throw Object.assign(new Error(`${statusCode} ${text}`), { statusCode });
  }
  return JSON.parse(text).id;
}

export const statusOf = (error) => error.statusCode;
