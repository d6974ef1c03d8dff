import { z } from 'zod';
import type { KubeClient } from '../../internal/kube/index.ts';
import { readPart } from '../cluster/index.ts';
import { addMissing, asJson, attemptFile, type Collecting } from './attempt-file.ts';
import { LISTED_KINDS, pickFields } from './kubernetes-files.ts';
import { redactText } from './redact/redact.ts';
import type { SupportFile } from './support-file.ts';

/** The namespaces of the cluster itself. Workloads of others are not read. */
export const SYSTEM_NAMESPACES = ['kube-system', 'kube-flannel'] as const;
/** Logs of more containers are listed as missing. */
export const MAX_POD_LOGS = 100;
/** An API server without etcd lets each list wait for its time limit. */
const MAX_FAILURES = 2;
const MAX_LOG_BYTES = 1024 * 1024;
/** Of a large cluster, the logs of its control plane come first. */
const FIRST = /^(?:kube-apiserver|kube-controller-manager|kube-scheduler|coredns)-/;

const podsShape = z.looseObject({
  items: z.array(
    z.looseObject({
      metadata: z.looseObject({ name: z.string().regex(/^[a-z0-9][a-z0-9.-]{0,120}$/) }),
      spec: z.looseObject({
        containers: z.array(z.looseObject({ name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/) })),
      }),
    }),
  ),
});

/** The listed kinds of objects, with their listed fields. */
export async function* kubernetesFiles(
  collecting: Collecting,
  client: Pick<KubeClient, 'getJson'>,
): AsyncGenerator<SupportFile> {
  let failures = 0;
  for (const { name, path, fields } of LISTED_KINDS) {
    const file = `kubernetes/${name}.json`;
    if (failures >= MAX_FAILURES) {
      addMissing(collecting, file, `not tried after ${MAX_FAILURES} failures, one after the other`);
      continue;
    }
    failures++;
    const attempt = attemptFile(collecting, file, async (signal) => {
      const list = (await client.getJson(path, signal)) as { readonly items?: unknown };
      return asJson(pickFields(list.items, fields) ?? []);
    });
    for await (const each of attempt) {
      failures = 0;
      yield each;
    }
  }
}

/** The last lines of each container of the cluster's own pods. They need a kubelet and an API server, but no curator. */
export async function* systemPodLogs(
  collecting: Collecting,
  client: Pick<KubeClient, 'getJson' | 'getText'>,
  lines: number,
): AsyncGenerator<SupportFile> {
  const { context } = collecting;
  const logs: { readonly pod: string; readonly container: string; readonly url: string }[] = [];
  for (const namespace of SYSTEM_NAMESPACES) {
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const pods = await readPart(context, async () =>
      podsShape.parse(await client.getJson(path, context.signal)),
    );
    if (!pods.ok) addMissing(collecting, `kubernetes/logs/${namespace}`, pods.error);
    else
      for (const { metadata, spec } of pods.value.items)
        for (const { name: container } of spec.containers) {
          const limits = `container=${container}&tailLines=${lines}&limitBytes=${MAX_LOG_BYTES}`;
          logs.push({ pod: metadata.name, container, url: `${path}/${metadata.name}/log?${limits}` });
        }
  }
  const sorted = logs.toSorted((a, b) => Number(FIRST.test(b.pod)) - Number(FIRST.test(a.pod)));
  for (const { pod, container, url } of sorted.slice(0, MAX_POD_LOGS))
    yield* attemptFile(collecting, `kubernetes/logs/${pod}/${container}.log`, async (signal) =>
      redactText(await client.getText(url, signal)),
    );
  if (sorted.length > MAX_POD_LOGS)
    addMissing(collecting, 'kubernetes/logs', `more than ${MAX_POD_LOGS} logs of pods`);
}
