import { LAYERS, problemsFrom, type Finding, type Grade } from '../../internal/doctor/index.ts';
import { formatTable } from '../host/index.ts';

/** More good results of one check are counted, not listed. */
const MAX_GOOD = 5;
const GRADES: readonly Grade[] = ['good', 'warning', 'error', 'unknown'];

/** How many findings have each grade. */
export type GradeCounts = Readonly<Record<Grade, number>>;

/** Counts the findings by grade. */
export function countGrades(findings: readonly Finding[]): GradeCounts {
  const count = (grade: Grade): number => findings.filter((each) => each.grade === grade).length;
  return { good: count('good'), warning: count('warning'), error: count('error'), unknown: count('unknown') };
}

/** One table per layer with every figure, then the problems with their fixes, likely causes first. */
export function renderFindings(
  title: string,
  findings: readonly Finding[],
  notChecked: readonly { readonly what: string; readonly why: string }[],
): string {
  const problems = problemsFrom(findings);
  const counts = countGrades(findings);
  return [
    title,
    ...LAYERS.flatMap((layer) => renderLayer(layer, findings)),
    ...renderProblemList(problems),
    '',
    ...notChecked.map(({ what, why }) => `Not checked: ${what} (${why})`),
    '',
    GRADES.map((grade) => `${counts[grade]} ${grade}`).join(', '),
  ].join('\n');
}

/** The problems with their fixes, likely causes first, and those that have ended since the last time. */
export function renderProblems(
  title: string,
  { findings, ended }: { readonly findings: readonly Finding[]; readonly ended: readonly Finding[] },
): string {
  const problems = problemsFrom(findings);
  const counts = countGrades(findings);
  return [
    title,
    ...(problems.length === 0 ? ['', 'No problems.'] : renderProblemList(problems)),
    ...(ended.length === 0 ? [] : ['', ...ended.map(({ code, cause }) => `ended: ${cause} [${code}]`)]),
    '',
    GRADES.map((grade) => `${counts[grade]} ${grade}`).join(', '),
  ].join('\n');
}

function renderLayer(layer: string, all: readonly Finding[]): readonly string[] {
  const findings = all.filter((each) => each.layer === layer);
  if (findings.length === 0) return [];
  const rows = [...Map.groupBy(findings, ({ code, threshold }) => `${code} ${threshold}`)].flatMap(([, of]) =>
    rowsOf(of),
  );
  return ['', formatTable([layer.toUpperCase(), 'GRADE', 'FOUND', 'THRESHOLD'], rows)];
}

function rowsOf(findings: readonly Finding[]): readonly (readonly string[])[] {
  const good = findings.filter(({ grade }) => grade === 'good');
  const hidden = new Set(good.length > MAX_GOOD ? good.slice(MAX_GOOD - 1) : []);
  const rows = findings
    .filter((each) => !hidden.has(each))
    .map(({ subject, grade, figure, threshold }) => [subject, grade, figure, threshold]);
  const [one] = hidden;
  return one === undefined ? rows : [...rows, [`${hidden.size} more`, 'good', 'as above', one.threshold]];
}

/** In their order. Without curators most checks are unknown for the same reason, which is printed once. */
function renderProblemList(problems: readonly Finding[]): readonly string[] {
  const groups = Map.groupBy(problems, (each) => (each.grade === 'unknown' ? each.cause : each));
  return [...groups.values()].flatMap((group) => {
    const codes = [...new Set(group.map(({ code }) => code))];
    if (codes.length === 1) return group.flatMap(renderProblem);
    const fixes = new Set(group.map(({ fix }) => fix).filter((fix) => fix !== ''));
    return [
      '',
      `unknown: ${group[0]?.cause} [${codes.length} checks: ${codes.join(', ')}]`,
      ...[...fixes].map((fix) => `  fix: ${fix}`),
    ];
  });
}

function renderProblem({ grade, cause, code, fix, followsFrom }: Finding): readonly string[] {
  const origin = followsFrom === undefined ? '' : `; probably follows from ${followsFrom}`;
  return ['', `${grade}: ${cause} [${code}${origin}]`, ...(fix === '' ? [] : [`  fix: ${fix}`])];
}
