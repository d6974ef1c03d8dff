import { expect, test } from '@jest/globals';
import { factsWithRoundTrips } from '../../internal/doctor/fake-facts.ts';
import { judgeFacts } from './run-doctor.ts';

const FACTS = factsWithRoundTrips({ n1: { n2: 1, n3: 40 }, n2: { n3: 41 } });

test('judgeFacts() has the matrix of round trips for programs, or only those of the named nodes', () => {
  const [n1ToN2, n1ToN3, n2ToN3] = [
    { from: 'n1', to: 'n2', ms: 1 },
    { from: 'n1', to: 'n3', ms: 40 },
    { from: 'n2', to: 'n3', ms: 41 },
  ];
  expect(judgeFacts(FACTS, []).view['roundTrips']).toEqual([n1ToN2, n1ToN3, n2ToN3]);
  expect(judgeFacts(FACTS, ['n1']).view['roundTrips']).toEqual([n1ToN2, n1ToN3]);
  expect(judgeFacts(FACTS, ['n3']).view['roundTrips']).toEqual([n1ToN3, n2ToN3]);
});
