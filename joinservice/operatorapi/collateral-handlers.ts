import { MAX_UPLOAD_BYTES, verifyBundle } from '../../internal/attestation/collateral/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';
import { mutationFrom, nameOfCaller, refuseField } from '../curator/index.ts';
import { PutCollateralRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { bundleIn } from '../evidence/index.ts';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

type CollateralParts = Pick<OperatorApiParts, 'etcd' | 'mutations' | 'clock' | 'manufacturers'>;

/** Stores the collateral that operators upload. A bundle is verified as a whole before it replaces the previous one. */
export function collateralHandlers(parts: CollateralParts): HandlersOf<'getCollateral' | 'putCollateral'> {
  const { etcd, mutations, clock, manufacturers: trust } = parts;
  const read = (signal: AbortSignal) => records.collateral.read(etcd, COLLATERAL_KEY, signal);
  return {
    getCollateral: async (_request, { signal }) => {
      const { record } = await read(signal);
      if (record === undefined) return {};
      const { version: _version, bundle, updatedMs, ...rest } = record;
      return { ...rest, bundle: Buffer.from(bundle, 'base64'), updatedMs: BigInt(updatedMs) };
    },
    putCollateral: async (request, call) => {
      const { bundle } = request;
      if (bundle.length > MAX_UPLOAD_BYTES)
        refuseField('bundle', `${bundle.length} bytes, at most ${MAX_UPLOAD_BYTES}`);
      const mutation = mutationFrom(PutCollateralRequestSchema, request, { ...call, subject: 'collateral' });
      await mutations.run(mutation, async () => {
        const before = await read(call.signal);
        const [nowMs, previous] = [clock.nowMs(), bundleIn(before.record)];
        const { items, evaluationNumber } = verify(bundle, { trust, nowMs, previous });
        const encoded = Buffer.from(bundle).toString('base64');
        const by = { updatedMs: nowMs, updatedBy: nameOfCaller(call.peer) };
        const record: CollateralRecord = { version: 1, bundle: encoded, evaluationNumber, ...by };
        return {
          when: [before.unchanged],
          then: [records.collateral.put(COLLATERAL_KEY, record)],
          detail: { evaluationNumber, documents: items.length },
        };
      });
      const { record: now } = await read(call.signal);
      return { evaluationNumber: now?.evaluationNumber ?? 0 };
    },
  };
}

/** Validators verify every document again; this check keeps a bad bundle from replacing a good one. */
function verify(...inputs: Parameters<typeof verifyBundle>): ReturnType<typeof verifyBundle> {
  try {
    return verifyBundle(...inputs);
  } catch (cause) {
    if (!(cause instanceof CodedError)) throw cause;
    throw new OperatorApiError('operatorapi-collateral-refused', 'verifying uploaded collateral', { cause });
  }
}
