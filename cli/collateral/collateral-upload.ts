import { encodeBundle } from '../../internal/attestation/collateral/index.ts';
import { OperatorApi } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { AttestError, CollateralStore } from '../attest/index.ts';
import { callCurator, newMutation } from '../cluster/index.ts';

/** `cluster attest collateral hand-on`: what the workspace judges with becomes what the whole cluster judges with. */
export async function runCollateralUpload(context: CommandContext): Promise<void> {
  const { host, ports, paths } = context;
  const kept = await new CollateralStore(ports.files, paths.workspace).bundle();
  if (kept === undefined)
    throw new AttestError('attest-collateral-missing', `handing on the collateral of ${paths.workspace}`);
  const bundle = Buffer.from(encodeBundle(kept), 'utf8');
  const { evaluationNumber } = await callCurator(context, (_, call, of) =>
    of(OperatorApi).putCollateral({ bundle, mutation: newMutation() }, call),
  );
  const documents = kept.items.length;
  host.result(
    { documents, evaluationNumber, assembled: new Date(kept.assembledMs).toISOString() },
    () => `The cluster judges with these ${documents} documents from now on.`,
  );
}
