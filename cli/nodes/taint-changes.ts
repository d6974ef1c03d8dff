import {
  isLabelKey,
  isLabelValue,
  isReservedTaint,
  isTaintEffect,
  type Taint,
  TAINT_EFFECTS,
  taintIdOf,
} from '../../internal/role/index.ts';
import { AppError } from '../app/errors.ts';

/** Taints to set and to remove. An empty effect removes all taints with the key. */
export interface TaintChanges {
  readonly set: readonly Taint[];
  readonly remove: readonly { readonly key: string; readonly effect: string }[];
}

/**
 * Parses changes as kubectl does: KEY=VALUE:EFFECT and KEY:EFFECT set a taint, KEY:EFFECT- and KEY- remove.
 * @throws AppError `app-usage`
 */
export function parseTaintChanges(words: readonly string[]): TaintChanges {
  const changes = words.map(parseChange);
  const set = changes.flatMap((each) => (each.kind === 'set' ? [each.taint] : []));
  const remove = changes.flatMap((each) => (each.kind === 'remove' ? [each.taint] : []));
  for (const [index, taint] of set.entries()) {
    const id = taintIdOf(taint);
    if (set.findIndex((each) => taintIdOf(each) === id) !== index)
      throw usage(`taint ${id} is set twice`, ONCE);
    const isRemoved = remove.some(
      ({ key, effect }) => key === taint.key && ['', taint.effect].includes(effect),
    );
    if (isRemoved) throw usage(`taint ${id} is both set and removed`, ONCE);
  }
  return { set, remove };
}

/** Parses taints to set: KEY=VALUE:EFFECT or KEY:EFFECT. @throws AppError `app-usage` */
export function parseTaints(words: readonly string[]): readonly Taint[] {
  const { set, remove } = parseTaintChanges(words);
  const [removed] = remove;
  if (removed !== undefined)
    throw usage(`taint ${JSON.stringify(removed.key)} cannot be removed here`, SET_ONE);
  return set;
}

const ONCE = 'Name each taint once.';
const SET_ONE = 'Use KEY=VALUE:EFFECT or KEY:EFFECT.';
/** "KEY[=VALUE][:EFFECT]", with a dash at the end of a removal. */
const CHANGE = /^(?<key>[^=:]*?)(=(?<value>[^:]*))?(:(?<effect>[A-Za-z]*))?(?<dash>-)?$/;

function parseChange(word: string) {
  const { key = '', value = '', effect = '', dash } = CHANGE.exec(word)?.groups ?? {};
  if (!isLabelKey(key) || !isLabelValue(value) || (effect === '' && dash === undefined))
    throw usage(
      `invalid taint ${JSON.stringify(word)}`,
      'Use KEY=VALUE:EFFECT or KEY:EFFECT to set it, KEY:EFFECT- or KEY- to remove it.',
    );
  if (effect !== '' && !isTaintEffect(effect))
    throw usage(
      `invalid taint ${JSON.stringify(word)}: unknown effect ${effect}`,
      `Use one of ${TAINT_EFFECTS.join(', ')}.`,
    );
  if (dash !== undefined) return { kind: 'remove', taint: { key, effect } } as const;
  if (isReservedTaint(key))
    throw usage(
      `taint ${JSON.stringify(word)} is reserved: taints of kubernetes.io and k8s.io belong to Kubernetes`,
      'Use another prefix, such as example.org/dedicated, or none.',
    );
  return { kind: 'set', taint: { key, value, effect: effect as Taint['effect'] } } as const;
}

function usage(text: string, fix: string): AppError {
  return new AppError('app-usage', text, { fix });
}
