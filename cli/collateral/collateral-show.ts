import { ageOf, parseBundle, type CollateralAge } from '../../internal/attestation/collateral/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { OperatorApi } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { collateralTable } from '../attest/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { callCurator } from '../cluster/index.ts';

/** `cluster attest collateral show`: what the cluster judges with, how old it is, and who handed it on. */
export async function runCollateralShow(context: CommandContext): Promise<ExitName> {
  const { host, ports } = context;
  const answer = await callCurator(context, (_, call, of) => of(OperatorApi).getCollateral({}, call));
  const nowMs = ports.clock.nowMs();
  const { evaluationNumber } = answer;
  if (answer.bundle.length === 0) {
    host.result(
      { documents: [], evaluationNumber },
      () => 'Nobody has handed collateral on: evidence of AMD and Intel processors is refused.',
    );
    return 'ok';
  }
  const { items } = parseBundle(Buffer.from(answer.bundle).toString('utf8'));
  const ages: readonly CollateralAge[] = items.map((item) => ageOf(item, nowMs));
  const { data, text } = collateralTable(ages);
  const [updated, updatedBy] = [
    new Date(Number(answer.updatedMs)).toISOString(),
    printable(answer.updatedBy),
  ];
  host.result(
    { ...data, evaluationNumber, updated, updatedBy },
    () => `${text}Handed on ${updated} by ${updatedBy}.`,
  );
  return ages.every(({ state }) => state === 'current') ? 'ok' : 'unhealthy';
}
