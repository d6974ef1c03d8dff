import type { FilePort } from '../../internal/file/index.ts';
import { isPhaseAtLeast } from '../../internal/keyset/index.ts';
import type { KnownCa } from '../joinclient/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { KEY_PATHS, type NodeState } from '../nodestate/index.ts';

const FIRST_GENERATION = 1;

/**
 * Reads the cluster CA that this machine knows: the CA in its membership, and the key generation that the machine has
 * reached. The generation prevents that somebody makes the machine trust the CA of an earlier generation. Before the
 * machine has joined, only its provisioning may name a generation.
 * @throws KeyRotationError `keyrotation-stage-damaged`
 */
export async function readKnownClusterCa(
  { files, state }: { readonly files: FilePort; readonly state: Pick<NodeState, 'membership'> },
  provisionedGeneration = FIRST_GENERATION,
): Promise<KnownCa> {
  const store = new KeyStore(files, KEY_PATHS);
  const membership = await state.membership.load();
  const { generation, phase } = await store.loadStage();
  // Before phase `retire`, the machine still trusts the previous CA, so it has not reached the next generation.
  const reached = isPhaseAtLeast(phase, 'retire') ? generation : generation - 1;
  return {
    trustedPem: membership?.clusterCaPem,
    generation: Math.max(reached, provisionedGeneration),
    floors: await store.loadFloors(),
  };
}
