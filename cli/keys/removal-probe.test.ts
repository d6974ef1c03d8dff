import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
  type ProbeResultSchema,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { probeResultsFrom } from './removal-probe.ts';
import { describeReplacedKeys, describeSharedKeys, SHARED_KEYS } from './shared-keys.ts';

const { REFUSED, ADMITTED, INCONCLUSIVE } = Outcome;
const HELD = { generation: 1, isReplaced: false };

/** A report with a result for each row, such as "n1 etcd-client node" (node, endpoint, credential). */
function reportOf(rows: Readonly<Record<string, Outcome>>, away: readonly string[] = []) {
  const results = Object.entries(rows).map(([row, outcome]): MessageInitShape<typeof ProbeResultSchema> => {
    const [node = '', endpoint = '', credential = ''] = row.split(' ');
    return { node, endpoint, credential, outcome, detail: 'so' };
  });
  return create(ProbeReportSchema, { results, away: [...away] });
}

describe('probeResultsFrom()', () => {
  test("counts an endpoint that refuses all of the node's own credentials as one passed check", () => {
    const { proofs } = probeResultsFrom(
      reportOf({
        'n1 etcd-peer node': REFUSED,
        'n1 etcd-peer kubelet': REFUSED,
        'n1 etcd-peer etcd-peer': ADMITTED,
      }),
      HELD,
    );
    expect(proofs).toEqual([
      {
        what: 'credentials test: Kubernetes etcd peer port on n1',
        ok: true,
        actual: 'node refused (so), kubelet refused (so)',
      },
    ]);
  });

  test.each([
    { name: 'accepted', outcome: ADMITTED, word: 'kubelet accepted (so)' },
    { name: 'inconclusive', outcome: INCONCLUSIVE, word: 'kubelet inconclusive (so)' },
    { name: 'unknown to this version', outcome: 9 as Outcome, word: 'kubelet inconclusive (so)' },
  ])(
    'a check fails, and shows the credential, if the result of one credential is: $name',
    ({ outcome, word }) => {
      const { proofs } = probeResultsFrom(
        reportOf({ 'n1 api-server node': REFUSED, 'n1 api-server kubelet': outcome }),
        undefined,
      );
      expect(proofs).toEqual([{ what: 'credentials test: API server on n1', ok: false, actual: word }]);
    },
  );

  test.each([
    'etcd-peer etcd-client',
    'state-etcd-client etcd-client',
    'etcd-client state-etcd-client',
    'state-etcd-peer etcd-peer',
    'etcd-client state-etcd-peer',
  ])(
    'an etcd credential that a foreign etcd port accepts fails the check, but is no result for the shared key (port, credential): %s',
    (row) => {
      const { proofs, sharedKeys } = probeResultsFrom(reportOf({ [`n1 ${row}`]: ADMITTED }), HELD);
      expect(proofs).toMatchObject([{ ok: false }]);
      expect(sharedKeys.filter(({ tried }) => tried !== undefined)).toEqual([]);
    },
  );

  test('a report without results fails; nodes that did not respond are listed', () => {
    expect(probeResultsFrom(reportOf({}, ['n3']), undefined).proofs).toMatchObject([
      { ok: false, actual: 'no endpoint found' },
      { what: 'credentials test: n3', ok: true, isTested: false },
    ]);
  });

  test('checks are sorted by endpoint, then by node number', () => {
    const rows = ['n10 kubelet node', 'n2 kubelet node', 'n1 new-endpoint node', 'n10 api-server node'];
    const { proofs } = probeResultsFrom(
      reportOf(Object.fromEntries(rows.map((row) => [row, REFUSED]))),
      undefined,
    );
    expect(proofs.map(({ what }) => what)).toEqual([
      'credentials test: API server on n10',
      'credentials test: kubelet on n2',
      'credentials test: kubelet on n10',
      'credentials test: new-endpoint on n1',
    ]);
  });

  test('credentials of shared keys are listed by endpoint and fail no check', () => {
    const { proofs, sharedKeys } = probeResultsFrom(
      reportOf({
        'n1 etcd-client node': REFUSED,
        'n1 etcd-client etcd-client': ADMITTED,
        'n2 etcd-client etcd-client': REFUSED,
        'n3 etcd-client etcd-client': INCONCLUSIVE,
        'n1 kubelet kubernetes-user': ADMITTED,
        'n2 kubelet kubernetes-user': ADMITTED,
      }),
      HELD,
    );
    expect(proofs.map(({ ok }) => ok)).toEqual([true]);
    const tried = Object.fromEntries(sharedKeys.map((each) => [each.key, each.tried]));
    expect(tried).toMatchObject({
      'etcd clients CA':
        'accepted at Kubernetes etcd client port on n1; refused at Kubernetes etcd client port on n2; no clear result from 1 of 3 tests',
      'Kubernetes clients CA': 'accepted at kubelet on n1, n2',
    });
    expect(tried['service account key']).toBeUndefined();
  });

  describe('after the keys of the removed node were replaced', () => {
    const replaced = { generation: 1, isReplaced: true };
    const credentials = SHARED_KEYS.flatMap((key) =>
      key.credentials.map((credential) => [key, credential] as const),
    );
    const endpointOf = (credential: string) =>
      /^(state-)?etcd-/.test(credential) ? credential : 'api-server';
    const allRefused = Object.fromEntries(
      ['n1', 'n2'].flatMap((node) =>
        credentials.map(([, credential]) => [`${node} ${endpointOf(credential)} ${credential}`, REFUSED]),
      ),
    );

    test('requires that all credentials of the old keys are refused', () => {
      const { proofs } = probeResultsFrom(reportOf({ 'n1 kubelet node': REFUSED, ...allRefused }), replaced);
      expect(proofs.every(({ ok }) => ok)).toBe(true);
      expect(proofs).toContainEqual({
        what: 'credentials of the old etcd peers CA',
        ok: true,
        actual: 'refused at Kubernetes etcd peer port on n1, n2',
      });
    });

    test.each(credentials.map(([key, credential]) => ({ key, credential })))(
      'fails if the test credential $credential is accepted, inconclusive or not tested',
      ({ key, credential }) => {
        const row = `n2 ${endpointOf(credential)} ${credential}`;
        const what = `credentials of the old ${key.key}`;
        for (const outcome of [ADMITTED, INCONCLUSIVE]) {
          const { proofs } = probeResultsFrom(reportOf({ ...allRefused, [row]: outcome }), replaced);
          expect(proofs.filter(({ ok }) => !ok).map((each) => each.what)).toContain(what);
        }
        const without = Object.entries(allRefused).filter(
          ([name]) => !name.includes(` ${endpointOf(credential)} `),
        );
        const { proofs } = probeResultsFrom(reportOf(Object.fromEntries(without)), replaced);
        expect(proofs).toContainEqual({ what, ok: false, actual: 'not tested' });
      },
    );
  });

  test('lists no shared keys for a removed worker', () => {
    const report = reportOf({ 'n1 kubelet node': REFUSED });
    const { sharedKeys } = probeResultsFrom(report, undefined);
    expect(describeSharedKeys(sharedKeys, { onDisk: 'left', outcome: 'none', generation: 2 })).toEqual([]);
  });
});

test('probeResultsFrom() prints no control characters of another machine', () => {
  const report = create(ProbeReportSchema, {
    results: [
      {
        node: 'n1\u001b[2J',
        endpoint: 'x\u0007',
        credential: 'node',
        outcome: INCONCLUSIVE,
        detail: '\u001b]0;\u0007',
      },
    ],
  });
  expect(JSON.stringify(probeResultsFrom(report, HELD))).not.toMatch(/\\u00(1b|07)/);
});

describe('describeSharedKeys()', () => {
  const keys = [
    { key: 'K', harm: 'open', lasts: false, tried: 'accepted at X' },
    { key: 'L', harm: 'read', lasts: true },
  ];

  test('lists each key, what a copy of it allows, the test result and what to do', () => {
    const said = describeSharedKeys(keys, { onDisk: 'left', outcome: 'kept', generation: 2 }).join('\n');
    expect(said).toMatch(
      /^\nThe node held.*not revoked.*\n {2}K +open\n +tested: accepted at X\n {2}L +read\nFor these tests a control plane [^\n]*The credentials of the removed node are refused\.\nUnless.*cluster keys rotate --replace 2$/s,
    );
  });

  test('says that a refused test does not make a key harmless', () => {
    const held = { onDisk: 'deleted', outcome: 'kept', generation: 2 } as const;
    const refused = [{ key: 'K', harm: 'open', lasts: false, tried: 'refused' }];
    expect(describeSharedKeys(refused, held).join('\n')).toContain('tried one credential only');
    expect(describeSharedKeys(keys, held).join('\n')).not.toContain('one credential only');
  });

  test('says that a node that was removed in order has wiped its shared keys', () => {
    const said = describeSharedKeys(keys, { onDisk: 'deleted', outcome: 'kept', generation: 2 }).join('\n');
    expect(said).toMatch(/were wiped from its disk\. An earlier copy/);
  });

  test('does not claim to know what an older release did not record', () => {
    const said = describeSharedKeys(keys, { onDisk: 'unknown', outcome: 'unknown', generation: 2 });
    expect(said.join('\n')).toMatch(/If the node was a control plane/);
    expect(said.join('\n')).toMatch(/Whether they were wiped from its disk is not known/);
  });

  test('tells an operator who is not an owner that an owner is needed', () => {
    const said = describeSharedKeys(keys, { onDisk: 'left', outcome: 'owner-needed', generation: 2 }).join(
      '\n',
    );
    expect(said).toMatch(/an owner must replace these keys: cluster keys rotate --replace 2$/);
  });

  test('lists the test results of replaced keys, and what copies of the other keys allow', () => {
    const said = describeSharedKeys(keys, { onDisk: 'left', outcome: 'replaced', generation: 2 }).join('\n');
    expect(said).toMatch(
      /replaced.*\n {2}K +accepted at X\nThe rotation did not replace these keys.*\n {2}L +read$/s,
    );
    expect(said).not.toContain('open\n');
    expect(describeReplacedKeys(keys)[0]).toBe('');
  });
});
