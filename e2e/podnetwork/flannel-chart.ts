import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { ExecaRunner } from '../../internal/exec/index.ts';

const CHART = join(import.meta.dirname, '../../cli/charts/flannel');
const commands = new ExecaRunner({ path: '/usr/bin:/bin' });

/** What a container of the network chart runs, and the files of its ConfigMap. */
export interface FlannelContainer {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<'cni-conf.json' | 'net-conf.json', string>>;
}

const configMap = z.object({
  kind: z.literal('ConfigMap'),
  data: z.object({ 'cni-conf.json': z.string(), 'net-conf.json': z.string() }),
});
const container = z.object({
  command: z.array(z.string()),
  args: z.array(z.string()),
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })),
});
const daemonSet = z.object({
  kind: z.literal('DaemonSet'),
  spec: z.object({
    template: z.object({ spec: z.object({ containers: z.tuple([container]) }) }),
  }),
});

/** Renders the network chart with Helm. @param helm path of the program */
export async function renderFlannel(helm: string, values: object): Promise<FlannelContainer> {
  const { stdout } = await commands.run({
    argv: [helm, 'template', 'flannel', CHART, '--namespace', 'kube-flannel', '--values', '-'],
    input: JSON.stringify(values),
    env: { HOME: '/nonexistent' },
    signal: new AbortController().signal,
  });
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as unknown);
  const find = <T>(shape: z.ZodType<T>): T => {
    const found = objects.flatMap((each) => shape.safeParse(each).data ?? []);
    return z.tuple([z.custom<T>()]).parse(found)[0];
  };
  const [{ command, args, env }] = find(daemonSet).spec.template.spec.containers;
  return {
    argv: [...command, ...args],
    env: Object.fromEntries(env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]]))),
    files: find(configMap).data,
  };
}
