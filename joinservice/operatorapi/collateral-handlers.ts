import {
  MAX_UPLOAD_BYTES,
  verifyBundle,
  type VerifiedBundle,
} from '../../internal/attestation/collateral/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';
import { mutationFrom, nameOfCaller, refuseField } from '../curator/index.ts';
import { PutCollateralRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { bundleIn } from '../evidence/index.ts';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/** Stores the collateral that operators upload. A bundle is verified as a whole before it replaces the previous one. */
export function collateralHandlers({
  etcd,
  mutations,
  clock,
  manufacturers: trust,
}: Pick<OperatorApiParts, 'etcd' | 'mutations' | 'clock' | 'manufacturers'>): HandlersOf<
  'getCollateral' | 'putCollateral'
> {
  return {
    getCollateral: async (_request, { signal }) => {
      const { record } = await records.collateral.read(etcd, COLLATERAL_KEY, signal);
      if (record === undefined) return {};
      const { bundle, evaluationNumber, updatedMs, updatedBy } = record;
      return {
        bundle: Buffer.from(bundle, 'base64'),
        evaluationNumber,
        updatedMs: BigInt(updatedMs),
        updatedBy,
      };
    },
    putCollateral: async (request, call) => {
      const { bundle } = request;
      const { signal } = call;
      if (bundle.length > MAX_UPLOAD_BYTES)
        refuseField('bundle', `${bundle.length} bytes, at most ${MAX_UPLOAD_BYTES}`);
      const mutation = mutationFrom(PutCollateralRequestSchema, request, { ...call, subject: 'collateral' });
      await mutations.run(mutation, async () => {
        const before = await records.collateral.read(etcd, COLLATERAL_KEY, signal);
        const nowMs = clock.nowMs();
        const { items, evaluationNumber } = verify(bundle, {
          trust,
          nowMs,
          previous: bundleIn(before.record),
        });
        const record: CollateralRecord = {
          version: 1,
          bundle: Buffer.from(bundle).toString('base64'),
          evaluationNumber,
          updatedMs: nowMs,
          updatedBy: nameOfCaller(call.peer),
        };
        return {
          when: [before.unchanged],
          then: [records.collateral.put(COLLATERAL_KEY, record)],
          detail: { evaluationNumber, documents: items.length },
        };
      });
      const { record: now } = await records.collateral.read(etcd, COLLATERAL_KEY, signal);
      return { evaluationNumber: now?.evaluationNumber ?? 0 };
    },
  };
}

/** Validators verify every document again; this check keeps a bad bundle from replacing a good one. */
function verify(...bundleAndOptions: Parameters<typeof verifyBundle>): VerifiedBundle {
  try {
    return verifyBundle(...bundleAndOptions);
  } catch (cause) {
    if (!(cause instanceof CodedError)) throw cause;
    throw new OperatorApiError('operatorapi-collateral-refused', 'verifying uploaded collateral', { cause });
  }
}
