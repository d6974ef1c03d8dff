import { join, resolve } from 'node:path';
import { runGo } from '../../run-go.ts';

const SOURCE = resolve(import.meta.dirname, '../../prometheus');
const MODULE = 'github.com/prometheus/prometheus/cmd';
/**
 * Builds Prometheus with service discovery for Kubernetes only. All other discoveries would make up most of the
 * program.
 */
const TAGS = 'remove_all_sd,enable_kubernetes_sd';

/** Builds a program of the pinned Prometheus (e2e/prometheus). Returns its path. */
export async function buildPrometheus(
  program: 'prometheus' | 'promtool',
  directory: string,
): Promise<string> {
  const path = join(directory, program);
  const flags = ['-trimpath', '-ldflags=-s -w', `-tags=${TAGS}`, '-o', path];
  await runGo(['build', ...flags, `${MODULE}/${program}`], { cwd: SOURCE });
  return path;
}
