import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { eventually } from '../harness/node-shell.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';

/** Creates the ConfigMaps o1 to o`count` in the namespace `default`. */
export async function createObjects(cluster: StoryCluster, machine: string, count: number): Promise<void> {
  await cluster.sh(
    machine,
    `for i in $(seq ${count}); do printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: o%s}\\ndata: {n: "%s"}\\n---\\n' $i $i; done | kubectl create -f - >/dev/null`,
  );
}

/** A hash of the objects of `createObjects()`: their names, UIDs and data. */
export async function contentHash(cluster: StoryCluster, machine: string, count: number): Promise<string> {
  const text = await cluster.sh(
    machine,
    `kubectl get configmaps -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.metadata.uid}{" "}{.data}{"\\n"}{end}' | grep '^o[0-9]' | sort`,
  );
  assert.equal(text.split('\n').length, count);
  return createHash('sha256').update(text).digest('hex');
}

interface Located {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec?: { readonly nodeName?: string };
  readonly endpoints?: readonly { readonly nodeName?: string }[] | null;
  readonly subsets?: readonly {
    readonly addresses?: readonly { readonly nodeName?: string }[];
    readonly notReadyAddresses?: readonly { readonly nodeName?: string }[];
  }[];
}

/** A line "KIND NAMESPACE/NAME NODE" for each pod on one of these nodes, and for each EndpointSlice and Endpoints object with an address on one. */
export async function staleOn(
  cluster: StoryCluster,
  machine: string,
  nodes: readonly string[],
): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const kind of ['pods', 'endpointslices', 'endpoints']) {
    const list = await cluster.sh(machine, `kubectl get ${kind} -A -o json`);
    const { items } = JSON.parse(list) as { readonly items: readonly Located[] };
    for (const { metadata, spec, endpoints, subsets = [] } of items) {
      const addresses = subsets.flatMap((each) => [
        ...(each.addresses ?? []),
        ...(each.notReadyAddresses ?? []),
      ]);
      const named = [spec ?? {}, ...(endpoints ?? []), ...addresses].map(({ nodeName }) => nodeName);
      for (const node of nodes.filter((each) => named.includes(each)))
        lines.push(`${kind} ${metadata.namespace}/${metadata.name} ${node}`);
    }
  }
  return lines;
}

/** Resets a machine as root on it, and starts it again. Its TPM stays the same. */
export async function resetOnMachine(cluster: StoryCluster, machine: string): Promise<void> {
  const order =
    'install -D /dev/null /var/lib/cluster/reset/order.json && systemctl restart --no-block bootstrapper';
  await cluster.sh(machine, order);
  await eventually(
    `${machine} goes off to restart`,
    60,
    () => cluster.try(machine, 'true'),
    ({ code }) => code !== 0,
  );
  await cluster.start(machine);
}
