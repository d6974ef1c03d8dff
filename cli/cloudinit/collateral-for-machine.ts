import { ageOf, encodeBundle, parseBundle } from '../../internal/attestation/collateral/index.ts';
import { OperatorApi } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { CollateralStore } from '../attest/index.ts';
import { callCurator } from '../cluster/index.ts';

/**
 * The bundle that a machine is to be given: what the cluster judges with, or the workspace's where the cluster is not
 * asked. None, and a warning, where there is none or the machine would refuse it because something in it has run out.
 */
export async function collateralForMachine(
  context: CommandContext,
  options: { readonly asksCluster: boolean },
): Promise<string | undefined> {
  const { host, ports } = context;
  const text = options.asksCluster ? await ofCluster(context) : await ofWorkspace(context);
  if (text === undefined) {
    host.warn(
      'cloud-init-collateral-none',
      'There is no collateral: the machine cannot judge evidence of SNP or TDX. `cluster attest collateral refresh` fetches it, `hand-on` gives it to the cluster.',
    );
    return undefined;
  }
  const ages = parseBundle(text).items.map((item) => ageOf(item, ports.clock.nowMs()));
  const old = ages.find(({ state }) => state !== 'current');
  if (old === undefined) return text;
  host.warn(
    'cloud-init-collateral-expired',
    `The collateral is left out: the machine would refuse it, because the ${old.what} is ${old.state}. \`cluster attest collateral refresh\` fetches it anew.`,
  );
  return undefined;
}

async function ofCluster(context: CommandContext): Promise<string | undefined> {
  const { bundle } = await callCurator(context, (_, call, of) => of(OperatorApi).getCollateral({}, call));
  return bundle.length === 0 ? undefined : Buffer.from(bundle).toString('utf8');
}

async function ofWorkspace({ ports, paths }: CommandContext): Promise<string | undefined> {
  const bundle = await new CollateralStore(ports.files, paths.workspace).bundle();
  return bundle && encodeBundle(bundle);
}
