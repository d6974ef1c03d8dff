import { connect } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import {
  defineErrors,
  describeError,
  errorClass,
  errorChain,
  EXIT_CODES,
  fault,
  findCoded,
  isAbort,
  retryable,
} from './index.ts';

const teaErrors = defineErrors({
  'tea-cold': retryable.operator.precondition('It is cold.', 'Heat it.'),
  'tea-none': fault.system.preflight('No tea.', 'Buy some.'),
});

class TeaError extends errorClass(teaErrors) {}

const nested = (depth: number): Error =>
  depth === 0 ? new Error('level 0') : new Error(`level ${depth}`, { cause: nested(depth - 1) });

describe('CodedError', () => {
  test('has the fields of its catalogue entry', () => {
    expect(new TeaError('tea-cold', 'pouring')).toMatchObject({
      name: 'TeaError',
      code: 'tea-cold',
      message: 'pouring',
      fault: 'operator',
      exit: 'precondition',
      retryable: true,
      fix: 'Heat it.',
      details: {},
    });
  });

  test('has the fields that its constructor was given, in place of the fields of its catalogue entry', () => {
    const cause = new Error('why');
    const error = new TeaError('tea-cold', 'pouring', {
      cause,
      retryable: false,
      fix: 'Use the microwave.',
      details: { cups: 2 },
    });
    expect(error).toMatchObject({ retryable: false, fix: 'Use the microwave.', details: { cups: 2 }, cause });
  });

  test('has no cause property without a cause', () => {
    expect(Object.hasOwn(new TeaError('tea-none', 'pouring'), 'cause')).toBe(false);
  });

  test('a catalogue cannot be changed at run time', () => {
    expect(Object.isFrozen(teaErrors)).toBe(true);
  });
});

function syntaxErrorOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return error;
  }
}

describe('describeError()', () => {
  const cyclic = new Error('round');
  cyclic.cause = new Error('and', { cause: cyclic });
  const cases: readonly { name: string; given: unknown; want: string }[] = [
    {
      name: 'a cause chain, outermost error first',
      given: new Error('a', { cause: new Error('b') }),
      want: 'a: b',
    },
    {
      name: "a cause once, if the parent's message already contains its text",
      given: new Error('a: b', { cause: new Error('b') }),
      want: 'a: b',
    },
    { name: 'an error without a message by its name', given: new RangeError(), want: 'RangeError' },
    { name: 'a string that was thrown', given: 'just text', want: 'just text' },
    {
      name: 'a cause that is not an error',
      given: new Error('a', { cause: { why: 'b' } }),
      want: "a: { why: 'b' }",
    },
    { name: 'null that was thrown', given: null, want: '' },
    { name: 'a cause of null like no cause', given: new Error('a', { cause: null }), want: 'a' },
    {
      name: 'the parts of an AggregateError without a message, each once',
      given: new Error('dialing', {
        cause: new AggregateError([new Error('x'), new Error('y'), new Error('x')]),
      }),
      want: 'dialing: x; y',
    },
    {
      name: 'the message of an AggregateError with a message',
      given: new AggregateError([new Error('x')], 'all'),
      want: 'all',
    },
    ...[
      { text: '{"a": 1,}', want: 'not JSON (line 1, column 9)' },
      { text: '{\n  "a": secret\n}', want: 'not JSON' },
      { text: '{"a"', want: 'not JSON (line 1, column 5)' },
      { text: '', want: 'not JSON: it ends too early' },
    ].map(({ text, want }) => ({
      name: `the JSON ${JSON.stringify(text)}, without the text`,
      given: syntaxErrorOf(text),
      want,
    })),
    { name: 'another SyntaxError', given: new SyntaxError('bad regexp'), want: 'bad regexp' },
    { name: 'a cycle of causes once', given: cyclic, want: 'round: and' },
  ];
  test.each(cases)('describeError() describes $name', ({ given, want }) => {
    expect(describeError(given)).toBe(want);
  });

  test('stops at the maximum depth of causes', () => {
    expect([...errorChain(nested(1000))]).toHaveLength(16);
  });

  test('describes a failed connection', async () => {
    const error = await new Promise((resolve) =>
      connect({ host: 'localhost', port: 1 }).once('error', resolve),
    );
    expect(describeError(new Error('dialing', { cause: error }))).toMatch(/^dialing: connect ECONNREFUSED /);
  });
});

describe('findCoded()', () => {
  test('finds the outermost coded error of a chain', () => {
    const inner = new TeaError('tea-none', 'looking');
    const outer = new TeaError('tea-cold', 'pouring', { cause: inner });
    expect(findCoded(new Error('serving', { cause: outer }))).toBe(outer);
  });

  test.each([undefined, null, 'text', new Error('plain')])(
    'findCoded() finds no coded error in %p',
    (error) => {
      expect(findCoded(error)).toBeUndefined();
    },
  );
});

describe('isAbort()', () => {
  const reason = new Error('the program stops');
  const aborted = AbortSignal.abort(reason);
  const cases: readonly { name: string; error: unknown; signal: AbortSignal; want: boolean }[] = [
    { name: 'the abort reason itself', error: reason, signal: aborted, want: true },
    {
      name: 'an error with the abort reason as its cause',
      error: new Error('dialing', { cause: reason }),
      signal: aborted,
      want: true,
    },
    {
      name: 'an AbortError after the signal fired',
      error: new DOMException('x', 'AbortError'),
      signal: aborted,
      want: true,
    },
    {
      name: 'another error after the signal fired',
      error: new Error('disk full'),
      signal: aborted,
      want: false,
    },
    {
      name: 'an AbortError of another signal',
      error: new DOMException('x', 'AbortError'),
      signal: new AbortController().signal,
      want: false,
    },
  ];
  test.each(cases)('isAbort() returns $want for $name', ({ error, signal, want }) => {
    expect(isAbort(error, signal)).toBe(want);
  });
});

test('the EXIT_CODES are different and fit into a byte', () => {
  const numbers = Object.values(EXIT_CODES).map(({ number }) => number);
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(numbers.every((number) => number >= 0 && number < 256)).toBe(true);
});
