import got from 'got';

export const defaults = (url) => calls(got.extend({ prefixUrl: url }));

export const recommended = (url) =>
  calls(
    got.extend({
      prefixUrl: url,
      timeout: { request: 10_000 }, // of one attempt
      retry: {
        methods: ['POST'],
        statusCodes: [408, 409, 429, 500, 502, 503, 504],
        limit: 10,
        backoffLimit: 2_000,
      },
    }),
  );

function calls(client) {
  return async (key, amount) => {
    const charge = await client.post('charges', { json: { amount }, headers: { 'Idempotency-Key': key } }).json();
    return charge.id;
  };
}

export const statusOf = (error) => error.response?.statusCode;
