import { expect, test } from '@jest/globals';
import { MAX_RELAYS, RelayChoice } from './relay-choice.ts';

const name = (index: number): string => `node-${String(index).padStart(2, '0')}`;

/** Workers 0, 1, …, all alive. */
function choiceOf(count: number) {
  const choice = new RelayChoice();
  const say = (index: number, isAlive = true): void =>
    choice.set(name(index), { address: `a${index}`, isAlive });
  for (let index = 0; index < count; index++) say(index);
  return { choice, say };
}

const first = Array.from({ length: MAX_RELAYS }, (_, index) => `a${index}`);

test('RelayChoice chooses a few workers and keeps them when others appear', () => {
  const { choice, say } = choiceOf(0);
  for (let index = 5; index < 5 + MAX_RELAYS; index++) say(index);
  const chosen = choice.choose();
  expect(chosen).toHaveLength(MAX_RELAYS);
  say(0);
  expect(choice.choose()).toEqual(chosen);
});

test('RelayChoice replaces a worker without heartbeats once, and does not choose it again when it returns', () => {
  const { choice, say } = choiceOf(20);
  expect(choice.choose()).toEqual(first);
  say(3, false);
  const after = first.filter((each) => each !== 'a3').concat('a8');
  expect(choice.choose()).toEqual(after);
  say(3, true);
  expect(choice.choose()).toEqual(after);
});

test('RelayChoice keeps workers without heartbeats if there are no other workers', () => {
  const { choice, say } = choiceOf(3);
  for (let index = 0; index < 3; index++) say(index, false);
  expect(choice.choose()).toEqual(['a0', 'a1', 'a2']);
});

test('RelayChoice drops removed workers and new control planes at once, and follows a changed address', () => {
  const { choice } = choiceOf(3);
  choice.choose();
  choice.set(name(1), undefined);
  choice.set(name(2), { address: 'elsewhere', isAlive: true });
  expect(choice.choose()).toEqual(['a0', 'elsewhere']);
});

test('RelayChoice makes the same choice after all nodes were listed again', () => {
  const { choice, say } = choiceOf(20);
  choice.choose();
  say(3, false);
  const chosen = choice.choose();
  choice.clear();
  for (let index = 0; index < 20; index++) say(index);
  expect(choice.choose()).toEqual(chosen);
});
