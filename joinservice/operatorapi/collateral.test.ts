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

/** All Intel documents with this evaluation number, and the CRL of AMD. */
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

describe('collateral that operators upload', () => {
  test('is empty before the first upload', async () => {
    expect(await shown()).toEqual({});
  });

  test('the upload is stored byte for byte with its evaluation number, its time and the operator who uploaded it', async () => {
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

  test('a repeated upload call stores the bundle once', async () => {
    const [key, bundle] = [randomUUID(), bundleOf(documents())];
    await upload(bundle, key);
    const before = await etcd.get(COLLATERAL_KEY, { signal: never });
    expect(await upload(bundle, key)).toEqual({ evaluationNumber: 17 });
    expect((await etcd.get(COLLATERAL_KEY, { signal: never }))?.modRevision).toBe(before?.modRevision);
  });

  test('the curator remembers the evaluation number even if a later bundle has no Intel documents', async () => {
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
    {
      name: 'an upload with an older evaluation number than the stored one',
      given: () => bundleOf(documents(16)),
    },
    {
      name: 'an upload with a valid CRL that is older than the stored CRL',
      given: () =>
        bundleOf([
          ...documents().filter(({ kind }) => kind !== 'crl'),
          ...intel.collateral().crls.map((der) => ({ kind: 'crl', der }) as const),
          { kind: 'crl', der: issueCrl({ issuer: amd.ark, thisUpdateMs: TEST_NOW_MS - 9 * 86_400_000 }) },
        ]),
    },
    {
      name: 'an upload with an Intel TCB info that another key signed',
      given: () => bundleOf([...documents(), { kind: 'crl', der: issueCrl({ issuer: forger.authority }) }]),
    },
    { name: 'an upload that another Intel root signed', given: () => bundleOf(documents(17, forger)) },
    { name: 'a truncated upload', given: () => bundleOf(documents()).subarray(0, 2000) },
    { name: 'an upload that is not a bundle', given: () => Buffer.from('hello') },
    {
      name: 'an upload with a CRL of another AMD root',
      given: () => bundleOf([{ kind: 'crl', der: issueCrl({ issuer: new TestAmd('Milan').ark }) }]),
    },
  ];
  test.each(hostile)('$name is refused, and the stored bundle stays', async ({ given }) => {
    const good = bundleOf(documents(17));
    await upload(good);
    await expect(upload(given())).rejects.toMatchObject({ code: 'operatorapi-collateral-refused' });
    expect((await shown()).bundle).toEqual(good);
  });

  test('an upload above the etcd size limit is refused before it is parsed', async () => {
    await expect(upload(Buffer.alloc(1_000_001))).rejects.toMatchObject({ code: 'curator-request-invalid' });
  });
});
