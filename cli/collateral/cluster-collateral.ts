import { ageOf, encodeBundle, parseBundle } from '../../internal/attestation/collateral/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AttestError, collateralTable, readCollateral } from '../attest/index.ts';
import { callCurator, newMutation } from '../cluster/index.ts';

/** `cluster attest collateral upload`: uploads the collateral of the workspace for all nodes of the cluster. */
export async function runCollateralUpload(context: CommandContext): Promise<void> {
  const { host, ports, paths } = context;
  const kept = await readCollateral(ports.files, paths.workspace);
  const documents = kept.items.length;
  if (documents === 0)
    throw new AttestError(
      'attest-collateral-missing',
      `no collateral to upload in workspace ${paths.workspace}`,
    );
  const request = { bundle: Buffer.from(encodeBundle(kept)), mutation: newMutation() };
  const { evaluationNumber } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.putCollateral(request),
  );
  host.result(
    { documents, evaluationNumber, assembled: new Date(kept.assembledMs).toISOString() },
    () => `Uploaded ${documents} documents. All nodes use them within 15m.`,
  );
}

/** `cluster attest collateral show`: the collateral that the cluster uses, its age, and who uploaded it. */
export async function runCollateralShow(context: CommandContext): Promise<ExitName> {
  const { host, ports } = context;
  const { bundle, evaluationNumber, ...answer } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.getCollateral({}),
  );
  if (bundle.length === 0) {
    host.result(
      { documents: [], evaluationNumber },
      () => 'No collateral uploaded: evidence of AMD and Intel processors is refused.',
    );
    return 'ok';
  }
  const { data, text, exit } = collateralTable(parseBundle(bundle).items, ports.clock.nowMs());
  const updated = new Date(Number(answer.updatedMs)).toISOString();
  const updatedBy = printable(answer.updatedBy);
  host.result(
    { ...data, evaluationNumber, updated, updatedBy },
    () => `${text}Uploaded ${updated} by ${updatedBy}.`,
  );
  return exit;
}

/**
 * The encoded bundle for a new machine: the bundle of the cluster, or the bundle of the workspace if the caller must
 * not call the cluster. Resolves with undefined and warns if there is none, or if a document in it has expired, because
 * the machine would refuse it.
 */
export async function collateralForMachine(
  context: CommandContext,
  options: { readonly asksCluster: boolean },
): Promise<string | undefined> {
  const { host, ports } = context;
  const text = options.asksCluster ? await readFromCluster(context) : await readFromWorkspace(context);
  if (text === undefined) {
    host.warn(
      'cloud-init-collateral-none',
      'No collateral found: the machine cannot verify SEV-SNP or TDX evidence. Run `cluster attest collateral refresh`, then `cluster attest collateral upload`.',
    );
    return undefined;
  }
  const old = parseBundle(text)
    .items.map((item) => ageOf(item, ports.clock.nowMs()))
    .find(({ state }) => state !== 'current');
  if (old === undefined) return text;
  host.warn(
    'cloud-init-collateral-expired',
    `The collateral is left out: the machine would refuse it, because the ${old.what} is ${old.state}. Run \`cluster attest collateral refresh\`.`,
  );
  return undefined;
}

async function readFromCluster(context: CommandContext): Promise<string | undefined> {
  const { bundle } = await callCurator(context, ({ operatorApi }) => operatorApi.getCollateral({}));
  return bundle.length === 0 ? undefined : Buffer.from(bundle).toString('utf8');
}

async function readFromWorkspace({ ports, paths }: CommandContext): Promise<string | undefined> {
  const kept = await readCollateral(ports.files, paths.workspace);
  return kept.items.length === 0 ? undefined : encodeBundle(kept);
}
