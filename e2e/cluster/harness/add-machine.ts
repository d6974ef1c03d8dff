import type { LocalCluster } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';

/** Adds and starts a machine that asks to join at these join endpoints. @returns its identity, "tpm-ek:…" */
export async function addMachine(
  bench: Harness,
  cluster: LocalCluster,
  machine: {
    readonly name: string;
    /** The machine from which the new one takes its operating system, owner and component store. */
    readonly like: string;
    readonly joinEndpoints: readonly string[];
  },
): Promise<string> {
  const { name, like, joinEndpoints } = machine;
  const { signal } = bench;
  await using _lock = await cluster.lock();
  const model = await cluster.node(like);
  const { stdout } = await model.exec(['cat', '/etc/cluster/provisioning.json'], { signal });
  const { ownerKeys } = JSON.parse(stdout) as { readonly ownerKeys: readonly [string, ...string[]] };
  const seed = model.record.binds.find(({ target }) => target.endsWith('/blobs'));
  const identity = await cluster.manufactureTpm(name, signal);
  const added = await cluster.addNode({
    ...{ name, ownerKeys, joinEndpoints, layers: model.record.layers },
    ...(seed === undefined ? {} : { seedDirectory: seed.source }),
  });
  await added.start(signal);
  return `tpm-ek:${identity.replace(/^sha256:/, '')}`;
}
