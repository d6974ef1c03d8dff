import { create } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { AUDIT_PREFIX, COLLATERAL_KEY } from '../../internal/records/index.ts';
import { TestAmd, TestIntel } from '../../internal/testing/evidence/index.ts';
import { FakeClock, MemoryEtcd } from '../../internal/testing/index.ts';
import { issueCrl, TEST_NOW_MS } from '../../internal/testing/pki/index.ts';
import { Mutations, type Caller } from '../curator/index.ts';
import {
  GetCollateralRequestSchema,
  PutCollateralRequestSchema,
} from '../curatorproto/gen/operatorapi_pb.js';
import { collateralHandlers } from './collateral-handlers.ts';

const never = new AbortController().signal;
const amd = new TestAmd('Milan');
const intel = new TestIntel();
const forger = new TestIntel();
const owner = { kind: 'operator', name: 'owner', role: 'owner' } as unknown as Caller;
const call = { peer: owner, signal: never, address: '192.0.2.1' };

let etcd: MemoryEtcd;
let handlers: ReturnType<typeof collateralHandlers>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  const clock = new FakeClock(TEST_NOW_MS);
  const mutations = new Mutations({ etcd, clock, audit: new AuditLog({ etcd }) });
  const manufacturers = { amd: amd.trust, intel: intel.trust };
  handlers = collateralHandlers({ etcd, mutations, clock, manufacturers });
});

/** Everything of Intel with this number, and AMD's CRL. */
function documents(evaluationNumber = 17, maker = intel): readonly CollateralItem[] {
  const edit = (document: Record<string, unknown>): void => {
    document['tcbEvaluationDataNumber'] = evaluationNumber;
  };
  const { certificates, crls } = maker.collateral();
  return [
    ...certificates.map((der) => ({ kind: 'certificate', der }) as const),
    ...[...crls, issueCrl({ issuer: amd.ark })].map((der) => ({ kind: 'crl', der }) as const),
    { kind: 'tcb-info', ...maker.tcbInfo(edit) },
    { kind: 'qe-identity', ...maker.qeIdentity(edit) },
    { kind: 'certificate', der: amd.ark.der },
  ];
}

const bundleOf = (items: readonly CollateralItem[]): Buffer =>
  Buffer.from(encodeBundle({ assembledMs: TEST_NOW_MS, items }));

function upload(bundle: Uint8Array, idempotencyKey: string = randomUUID()) {
  const request = create(PutCollateralRequestSchema, { bundle, mutation: { idempotencyKey } });
  return handlers.putCollateral(request, call);
}

const shown = async () => handlers.getCollateral(create(GetCollateralRequestSchema), call);

describe('collateral that operators hand on', () => {
  test('is nothing before the first time', async () => {
    expect(await shown()).toEqual({});
  });

  test('is kept to the byte, with its number, its time and who brought it', async () => {
    const bundle = bundleOf(documents());
    expect(await upload(bundle)).toEqual({ evaluationNumber: 17 });
    expect(await shown()).toEqual({
      bundle,
      evaluationNumber: 17,
      updatedMs: BigInt(TEST_NOW_MS),
      updatedBy: 'operator:owner',
    });
    const { entries } = await etcd.list(AUDIT_PREFIX, { signal: never });
    expect(entries).toHaveLength(1);
  });

  test('happens once, however often the same call is repeated', async () => {
    const [key, bundle] = [randomUUID(), bundleOf(documents())];
    await upload(bundle, key);
    const before = await etcd.get(COLLATERAL_KEY, { signal: never });
    expect(await upload(bundle, key)).toEqual({ evaluationNumber: 17 });
    expect((await etcd.get(COLLATERAL_KEY, { signal: never }))?.modRevision).toBe(before?.modRevision);
  });

  test('the number is remembered also when a bundle comes without documents of Intel', async () => {
    await upload(bundleOf(documents(18)));
    const amdOnly = documents()
      .filter(({ kind }) => kind === 'crl')
      .slice(-1);
    expect(await upload(bundleOf([...amdOnly, { kind: 'certificate', der: amd.ark.der }]))).toEqual({
      evaluationNumber: 18,
    });
    await expect(upload(bundleOf(documents(17)))).rejects.toMatchObject({
      code: 'operatorapi-collateral-refused',
    });
  });

  const hostile = [
    { name: 'that is older than what was used', given: () => bundleOf(documents(16)) },
    {
      name: 'with a CRL that is current and older than the one that is there',
      given: () =>
        bundleOf([
          ...documents().filter(({ kind }) => kind !== 'crl'),
          ...intel.collateral().crls.map((der) => ({ kind: 'crl', der }) as const),
          { kind: 'crl', der: issueCrl({ issuer: amd.ark, thisUpdateMs: TEST_NOW_MS - 9 * 86_400_000 }) },
        ]),
    },
    {
      name: 'with a list of Intel’s platform ownerDocs that another made',
      given: () => bundleOf([...documents(), { kind: 'crl', der: issueCrl({ issuer: forger.authority }) }]),
    },
    { name: 'that another Intel signed', given: () => bundleOf(documents(17, forger)) },
    { name: 'that is cut off', given: () => bundleOf(documents()).subarray(0, 2000) },
    { name: 'that is no bundle', given: () => Buffer.from('hello') },
    {
      name: 'with a CRL of another AMD',
      given: () => bundleOf([{ kind: 'crl', der: issueCrl({ issuer: new TestAmd('Milan').ark }) }]),
    },
  ];
  test.each(hostile)('$name is refused, and what was there stays', async ({ given }) => {
    const good = bundleOf(documents(17));
    await upload(good);
    await expect(upload(given())).rejects.toMatchObject({ code: 'operatorapi-collateral-refused' });
    expect((await shown()).bundle).toEqual(good);
  });

  test('that is larger than etcd takes is refused before it is read', async () => {
    await expect(upload(Buffer.alloc(1_000_001))).rejects.toMatchObject({ code: 'curator-request-invalid' });
  });
});
