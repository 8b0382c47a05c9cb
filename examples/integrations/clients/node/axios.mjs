import axios from 'axios';
import axiosRetry, { exponentialDelay } from 'axios-retry';

export const defaults = (url) => {
  const client = axios.create({ baseURL: url });
  axiosRetry(client);
  return calls(client);
};

export const recommended = (url) => {
  const client = axios.create({ baseURL: url, timeout: 10_000 });
  axiosRetry(client, {
    retries: 10,
    shouldResetTimeout: true, // the timeout is then of one attempt
    retryDelay: (retry, error) => Math.min(exponentialDelay(retry, error), 2_000),
    retryCondition: ({ response }) => !response || retryable(response),
  });
  return calls(client);
};

// An answer that was cut in its body is an error with a status of 200.
function retryable({ status, headers }) {
  const told = headers['x-should-retry'];
  if (told === 'true' || told === 'false') return told === 'true';
  return status < 300 || status === 408 || status === 429 || status >= 500;
}

function calls(client) {
  return async (key, amount) => {
    const { data } = await client.post('/charges', { amount }, { headers: { 'Idempotency-Key': key } });
    return data.id;
  };
}

export const statusOf = (error) => error.response?.status;
