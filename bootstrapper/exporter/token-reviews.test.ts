import { expect, test } from '@jest/globals';
import { FakeClock } from '../../internal/testing/index.ts';
import { TokenReviews } from './token-reviews.ts';

const signal = new AbortController().signal;
const SECOND_MS = 1_000;

function create() {
  const clock = new FakeClock();
  const api = { isDown: false, allows: new Set(['good']), asked: [] as string[] };
  const ask = async (token: { reveal(): string }): Promise<boolean> => {
    api.asked.push(token.reveal());
    if (api.isDown) throw new Error('no API server answers');
    return api.allows.has(token.reveal());
  };
  const reviews = new TokenReviews({ ask, clock });
  return { clock, api, reviews, judge: (token: string) => reviews.judge(token, signal) };
}

test('TokenReviews.judge() asks the API server about a token once a minute, and then refuses a token whose right was withdrawn', async () => {
  const { clock, api, judge } = create();
  for (let times = 0; times < 3; times++) expect(await judge('good')).toBe('allowed');
  expect(api.asked).toEqual(['good']);
  api.allows.delete('good');
  await clock.advance(60 * SECOND_MS);
  expect(await judge('good')).toBe('refused');
});

test('TokenReviews.judge() asks the API server about a refused token again only after ten seconds', async () => {
  const { clock, api, judge } = create();
  expect(await judge('bad')).toBe('refused');
  expect(await judge('bad')).toBe('refused');
  expect(api.asked).toEqual(['bad']);
  await clock.advance(10 * SECOND_MS);
  api.allows.add('bad');
  expect(await judge('bad')).toBe('allowed');
});

test('TokenReviews.judge() allows a known token for an hour without an API server, but never an unknown token', async () => {
  const { clock, api, judge } = create();
  await judge('good');
  api.isDown = true;
  await clock.advance(3_599 * SECOND_MS);
  expect(await judge('good')).toBe('allowed');
  expect(await judge('other')).toBe('unknown');
  await clock.advance(SECOND_MS);
  expect(await judge('good')).toBe('unknown');
});

test('TokenReviews.judge() does not allow a formerly allowed token that was refused later, while no API server answers', async () => {
  const { clock, api, judge } = create();
  await judge('good');
  api.allows.delete('good');
  await clock.advance(60 * SECOND_MS);
  expect(await judge('good')).toBe('refused');
  api.isDown = true;
  await clock.advance(10 * SECOND_MS);
  expect(await judge('good')).toBe('unknown');
});

test('TokenReviews.judge() asks the API server about at most four tokens at once, however many invented tokens clients send', async () => {
  const clock = new FakeClock();
  const answers: ((allowed: boolean) => void)[] = [];
  const ask = () => new Promise<boolean>((resolve) => answers.push(resolve));
  const reviews = new TokenReviews({ ask, clock });
  const verdicts = Array.from({ length: 40 }, (_, index) => reviews.judge(`invented ${index}`, signal));
  for (const answer of answers) answer(false);
  expect(answers.length).toBe(4);
  const counted = Map.groupBy(await Promise.all(verdicts), (verdict) => verdict);
  expect([counted.get('refused')?.length, counted.get('unknown')?.length]).toEqual([4, 36]);
});

test('TokenReviews.judge() notices a withdrawn right even while invented tokens occupy all reviews', async () => {
  const clock = new FakeClock();
  const rights = new Set(['good']);
  const ask = (token: { reveal(): string }) =>
    token.reveal() === 'good' ? Promise.resolve(rights.has('good')) : new Promise<boolean>(() => undefined);
  const reviews = new TokenReviews({ ask, clock });
  expect(await reviews.judge('good', signal)).toBe('allowed');
  for (let index = 0; index < 40; index++) void reviews.judge(`invented ${index}`, signal);
  rights.delete('good');
  await clock.advance(60 * SECOND_MS);
  expect(await reviews.judge('good', signal)).toBe('refused');
});

test('TokenReviews.judge() asks the API server again about a known token after decisions about many other tokens', async () => {
  const { api, judge } = create();
  await judge('good');
  for (let index = 0; index < 200; index++) await judge(`invented ${index}`);
  await judge('good');
  expect(api.asked.filter((token) => token === 'good')).toEqual(['good']);
  for (let index = 0; index < 16; index++) api.allows.add(`right ${index}`);
  for (let index = 0; index < 16; index++) await judge(`right ${index}`);
  await judge('good');
  expect(api.asked.filter((token) => token === 'good').length).toBe(2);
});
