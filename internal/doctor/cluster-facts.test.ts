import { describe, expect, test } from '@jest/globals';
import {
  encodeFacts,
  MAX_FACTS_BYTES,
  parseFacts,
  type ClusterFacts,
  type RecordFacts,
} from './cluster-facts.ts';
import { factsOfMachine, factsWithRecords, fakeFacts, fakeNode } from './fake-facts.ts';

const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/** Adds a member to every object, at every depth. */
function withNewMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNewMembers);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [key, withNewMembers(member)]);
  return { ...Object.fromEntries(members), ofTomorrow: { a: [1] } };
}

/** Facts in which also the lists of problems, which are empty in a healthy cluster, have an element. */
function withEveryList(): ClusterFacts {
  const facts = fakeFacts();
  if (!facts.kubernetes.ok) throw new Error('fake facts have Kubernetes');
  const [namespace, name, why] = ['shop', 'web', 'exceeded quota'];
  const failures = {
    webhooks: [{ name, isRequired: true, service: 'shop/hook', readyEndpoints: 0 }],
    apis: [{ name, why }],
    namespaces: [{ name, sinceMs: 1, why, waitsForFinalizers: true }],
    deployments: [{ namespace, name, wanted: 2, created: 1, why }],
  };
  const machine = {
    services: [{ name, why }],
    problems: [{ code: 'preflight-swap', subject: 'swap', cause: 'on', isWarning: false }],
    podNetwork: {
      ...{ address: '10.244.0.0', unreachable: ['10.244.1.0'] },
      fullPackets: { lost: ['10.244.1.0'], judged: 1 },
      roundTrips: [{ address: '10.244.1.0', ms: 40 }],
    },
  };
  const { value: records } = factsWithRecords({ nodes: [fakeNode('n1', { machine })] }).records as {
    readonly value: RecordFacts;
  };
  return {
    ...facts,
    records: { ok: true, value: records },
    kubernetes: { ok: true, value: { ...facts.kubernetes.value, failures } },
  };
}

describe('parseFacts()', () => {
  test('reads what encodeFacts() has written', () => {
    expect(parseFacts(encodeFacts(fakeFacts()))).toEqual(fakeFacts());
  });

  test.each([
    { name: 'of a cluster', facts: withEveryList() },
    { name: 'of one machine', facts: factsOfMachine({}) },
  ])('leaves out what a newer version has added, at every level of facts $name', ({ facts }) => {
    expect(parseFacts(bytesOf(withNewMembers(facts)))).toEqual(facts);
  });

  const cases = [
    { name: 'too many bytes', bytes: new Uint8Array(MAX_FACTS_BYTES + 1), code: 'doctor-facts-too-large' },
    { name: 'text that is not JSON', bytes: new TextEncoder().encode('{'), code: 'doctor-facts-malformed' },
    {
      name: 'bytes that are not UTF-8',
      bytes: new Uint8Array([0x22, 0xff, 0x22]),
      code: 'doctor-facts-malformed',
    },
    {
      name: 'an unknown format version',
      bytes: bytesOf({ ...fakeFacts(), version: 2 }),
      code: 'doctor-facts-version',
    },
    { name: 'a missing version', bytes: bytesOf({}), code: 'doctor-facts-malformed' },
    {
      name: 'a part that has neither a value nor an error',
      bytes: bytesOf({ ...fakeFacts(), joins: { ok: true } }),
      code: 'doctor-facts-malformed',
    },
    {
      name: 'a time that is no number',
      bytes: bytesOf({ ...fakeFacts(), takenMs: 'today' }),
      code: 'doctor-facts-malformed',
    },
  ];
  test.each(cases)('refuses $name', ({ bytes, code }) => {
    expect(() => parseFacts(bytes)).toThrow(expect.objectContaining({ code }));
  });
});
