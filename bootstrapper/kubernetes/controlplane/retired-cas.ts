import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { readText } from '../credentials/key-pair.ts';
import { ROTATED_FILES } from '../credentials/key-files.ts';
import { PATHS } from '../settings.ts';

const KUBECTL_MS = 15_000;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const shape = z.object({ data: z.record(z.string(), z.string()).default({}) });

/**
 * kube-system/extension-apiserver-authentication: whom extensions, and the scheduler, believe of clients and of API servers.
 * Each API server adds what it believes itself, and none takes anything out before it runs out
 * (k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust): with a front-proxy key that was lost,
 * somebody could be anybody there. So this takes out what is not believed here. An API server that has not retired it yet
 * would put it back.
 */
export async function removeRetiredCas(
  { commands, files }: { readonly commands: CommandRunner; readonly files: FilePort },
  signal: AbortSignal,
): Promise<void> {
  if ((await files.stat(ROTATED_FILES.issuerCert)) === undefined) return;
  const believed = {
    'client-ca-file': certificatesIn(await readText(files, ROTATED_FILES.clientsTrustBundle)),
    'requestheader-client-ca-file': certificatesIn(
      await readText(files, ROTATED_FILES.frontProxyTrustBundle),
    ),
  };
  const kubectl = async (...args: string[]): Promise<string> => {
    const at = ['--kubeconfig', PATHS.adminConf, '--namespace', 'kube-system'];
    const argv = [`${PATHS.bin}/kubectl`, ...at, ...args] as const;
    return (await commands.run({ argv: [...argv], timeoutMs: KUBECTL_MS, signal })).stdout;
  };
  const name = ['configmap', 'extension-apiserver-authentication'];
  const { data } = shape.parse(JSON.parse(await kubectl('get', ...name, '--output', 'json')));
  const kept: Record<string, string> = {};
  for (const [key, certificates] of Object.entries(believed)) {
    const told = certificatesIn(data[key] ?? '');
    if (told.some((pem) => !certificates.includes(pem))) kept[key] = certificates.join('');
  }
  if (Object.keys(kept).length > 0)
    await kubectl('patch', ...name, '--type', 'merge', '--patch', JSON.stringify({ data: kept }));
}

/** Each by itself, written the same way. */
function certificatesIn(bundle: string): readonly string[] {
  return [...bundle.matchAll(CERTIFICATE)].map(([pem]) => `${pem.replaceAll(/\s*\r?\n\s*/g, '\n')}\n`);
}
