// Makes one call for each key on standard input, and prints how they ended: node run.mjs CLIENT SETTING URL
import { readFileSync } from 'node:fs';

const [client, setting, url] = process.argv.slice(2);
const { statusOf, ...settings } = await import(`./${client}.mjs`);
const call = settings[setting](url);
const keys = readFileSync(0, 'utf8').split('\n').filter(Boolean);
const outcomes = [];

async function work() {
  for (let n = outcomes.length; n < keys.length; n = outcomes.length) {
    const outcome = { key: keys[n], id: '', status: 0, error: '' };
    outcomes.push(outcome);
    try {
      outcome.id = (await call(keys[n], 100 + n)) ?? '';
      outcome.status = 200;
    } catch (error) {
      outcome.error = String(error) || 'failed';
      outcome.status = statusOf(error) ?? 0;
    }
  }
}

await Promise.all(Array.from({ length: 50 }, work));
console.log(JSON.stringify(outcomes));
process.exit(0); // agents may keep connections open
