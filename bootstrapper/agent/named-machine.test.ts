import { describe, expect, test } from '@jest/globals';
import { namedMachine } from './named-machine.ts';

const fingerprint = `sha256:1a2b3c4d${'0'.repeat(56)}`;

describe('namedMachine()', () => {
  test.each([
    { given: 'localhost', want: 'node-1a2b3c4d' },
    { given: 'localhost.localdomain', want: 'node-1a2b3c4d' },
    { given: '(none)', want: 'node-1a2b3c4d' },
    { given: '', want: 'node-1a2b3c4d' },
    { given: 'localhost2', want: 'localhost2' },
    { given: 'n1', want: 'n1' },
  ])('calls a machine with the hostname "$given" $want', ({ given, want }) => {
    const machine = {
      hostname: () => given,
      architecture: () => 'amd64',
      addresses: () => ['198.18.0.11'],
      bootId: () => Promise.resolve('boot'),
    };
    const named = namedMachine(machine, fingerprint);
    expect(named.hostname()).toBe(want);
    expect([named.architecture(), named.addresses()]).toEqual(['amd64', ['198.18.0.11']]);
  });
});
