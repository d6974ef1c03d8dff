import { describe, expect, test } from '@jest/globals';
import type { ClusterFacts } from '../cluster-facts.ts';
import { diagnose } from '../diagnose.ts';
import { factsWithRoundTrips, fakeFacts, fakeNode, factsWithRecords } from '../fake-facts.ts';
import { nodeRoundTrips } from './node-latency-checks.ts';

const findings = (facts: ClusterFacts) =>
  diagnose(facts)
    .filter(({ code }) => code === 'doctor-node-latency')
    .map(({ node, grade, figure, cause }) => ({ node, grade, figure, cause }));
const problems = (facts: ClusterFacts) => findings(facts).filter(({ grade }) => grade !== 'good');
const figures = (facts: ClusterFacts) =>
  findings(facts).map(({ node, grade, figure }) => `${node} ${grade}: ${figure}`);

describe('doctor-node-latency', () => {
  test('has one finding for each node that probes, with its slowest round trip and the node at its end', () => {
    const found = factsWithRoundTrips({
      n1: { n2: 5, n3: 5, n4: 5 },
      n2: { n1: 5, n3: 40, n4: 6 },
      n3: { n2: 100 },
    });
    expect(figures(found)).toEqual([
      'n1 good: median round trip at most 5 ms, to n2',
      'n2 good: median round trip about 40 ms, to n3',
      'n3 good: median round trip about 100 ms, to n2',
      'n4 good: not measured yet',
    ]);
  });

  test('names the one node that is far from the others, and both ends in the cause', () => {
    const far = { n4: 240, n1: 5, n2: 5, n3: 5 };
    const found = factsWithRoundTrips({ n1: far, n2: far, n3: far, n4: { n1: 250, n2: 230, n3: 210 } });
    expect(problems(found)).toEqual([
      {
        ...{ node: 'n4', grade: 'warning', figure: 'median round trip about 250 ms, to n1' },
        cause:
          'packets between n4 and n1, n2, n3 take up to 250 ms there and back (median), through the network of pods',
      },
    ]);
    expect(figures(found)).toContain('n2 good: median round trip at most 5 ms, to n1');
  });

  test('names a node that others measure, although it measures nothing, and the other end of its slowest round trip', () => {
    const found = factsWithRoundTrips({ n1: { n2: 120 }, n3: { n2: 130, n4: 30 } });
    expect(figures(found)).toEqual([
      'n2 warning: median round trip about 130 ms, to n3',
      'n3 good: median round trip about 30 ms, to n4',
      'n4 good: not measured yet',
    ]);
  });

  test('says of older agents that they do not measure, and judges the others', () => {
    const older = {
      machine: {
        ...{ services: [], problems: [] },
        podNetwork: { address: '10.244.2.0', unreachable: [], fullPackets: { lost: [], judged: 3 } },
      },
    };
    const found = factsWithRoundTrips({ n1: { n2: 5 }, n3: { n4: 200 } }, { n2: older });
    expect(figures(found)).toEqual([
      'n3 warning: median round trip about 200 ms, to n4',
      'n1 good: median round trip at most 5 ms, to n2',
      'n2 unknown: not measured',
      'n4 good: not measured yet',
    ]);
  });

  test('is good where no node has the network chart', () => {
    const nodes = [fakeNode('n1', { machine: { services: [], problems: [] } })];
    expect(findings(factsWithRecords({ nodes }))).toMatchObject([{ grade: 'good', figure: 'not probed' }]);
  });
});

describe('nodeRoundTrips()', () => {
  test('has every round trip with the names of both nodes, apart from those to unknown and to silent nodes', () => {
    const found = factsWithRoundTrips(
      { n1: { n2: 1, n3: 40, n4: 1, n9: 7 }, n3: { n1: 41, n3: 1 }, n4: { n1: 1 } },
      { n4: { health: 'silent' } },
    );
    expect(nodeRoundTrips(found)).toEqual([
      { from: 'n1', to: 'n2', ms: 1 },
      { from: 'n1', to: 'n3', ms: 40 },
      { from: 'n3', to: 'n1', ms: 41 },
    ]);
  });

  test('is empty if the records cannot be read', () => {
    const records = { ok: false as const, error: 'timed out', codes: [] };
    expect(nodeRoundTrips(fakeFacts({ records }))).toEqual([]);
  });
});
