import type { CommandContext } from '../../app/command.ts';
import { layoutOf, readMasterSecret, readOwnerKey, StateFile } from '../../workspace/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { readKnownCurators } from '../curator/known-curators.ts';
import { adminKeyFrom, clusterIdFrom, initIdFrom } from './init-request.ts';
import { recoverResult } from './recover-result.ts';

/** The curators ("host:port") of the cluster of this workspace if one of them responds; undefined if none does. */
export async function findLiveCluster(context: CommandContext): Promise<readonly string[] | undefined> {
  const { files } = context.ports;
  const layout = layoutOf(context.paths.workspace);
  const [ownerKey, masterSecret] = [
    await readOwnerKey(context, layout),
    await readMasterSecret(context, layout),
  ];
  const { value } = await StateFile.read(files, layout);
  const known = await readKnownCurators(files, layout.curators);
  // An init that did not finish on this workstation may have finished on its machine.
  const first = value.init?.endpoint.replace(/:[0-9]+$/, `:${PORTS.curator}`) ?? '';
  const named = [...known, ...(value.init?.result?.curatorEndpoints ?? []), first];
  const endpoints = [...new Set(named)].filter((each) => each !== '');
  if (endpoints.length === 0) return undefined;
  const initId = initIdFrom(masterSecret);
  const asked = {
    ...{ endpoints, ownerKey, initId, clusterId: clusterIdFrom(masterSecret) },
    adminKeyPem: adminKeyFrom(masterSecret),
    caFile: { path: layout.clusterCa, of: initId },
  };
  const recovered = await context.host.step(
    'restore-look',
    'Checking whether the old cluster still responds',
    () => recoverResult(context, asked),
  );
  return recovered?.result.curatorEndpoints;
}
