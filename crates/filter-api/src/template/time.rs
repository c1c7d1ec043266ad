//! Times as text, in UTC: the formats of `strftime`, and fractions of a second as Envoy writes them.

/// How a time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Number(Field, Pad),
    Name(Name),
    /// Decimals of the second: how many of them.
    Fraction(usize),
}

/// A number of the calendar or of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    Century,
    YearOfCentury,
    IsoYear,
    IsoYearOfCentury,
    Month,
    Day,
    DayOfYear,
    /// From Monday, 1.
    WeekdayFromMonday,
    /// From Sunday, 0.
    WeekdayFromSunday,
    WeekFromSunday,
    WeekFromMonday,
    IsoWeek,
    Hour,
    HourOfHalf,
    Minute,
    Second,
    /// Seconds since 1970.
    Epoch,
}

/// To how many digits a number is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pad {
    Zeros(usize),
    /// Two, by a blank.
    Blank,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Weekday,
    WeekdayShort,
    Month,
    MonthShort,
    HalfUpper,
    HalfLower,
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// What Envoy writes where no format is given.
const DEFAULT: &str = "%Y-%m-%dT%H:%M:%E3SZ";

impl TimeFormat {
    /// Reads a format; an empty one is RFC 3339 with milliseconds.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        read(if text.is_empty() { DEFAULT } else { text }, &mut pieces)?;
        Ok(Self(pieces))
    }

    /// Writes a time, in nanoseconds since 1970.
    pub fn write(&self, unix_nanos: u64, out: &mut Vec<u8>) {
        let time = Time::of(unix_nanos);
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Number(field, pad) => push_number(time.number(*field), *pad, out),
                Piece::Name(name) => time.push_name(*name, out),
                Piece::Fraction(digits) => {
                    let text = digits_of(time.nanos, 9);
                    out.extend_from_slice(text.get(..*digits).unwrap_or(&text));
                }
            }
        }
    }
}

fn read(text: &str, pieces: &mut Vec<Piece>) -> Result<(), String> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        push_text(before, pieces);
        let mut letters = after.chars();
        let letter = letters.next();
        let digits =
            |letter: Option<char>| letter.and_then(|letter| letter.to_digit(10)).filter(|digits| *digits > 0);
        let number = |field, digits| Piece::Number(field, Pad::Zeros(digits));
        let blank = |field| Piece::Number(field, Pad::Blank);
        let plain = |field| Piece::Number(field, Pad::Nothing);
        let piece = match letter {
            Some('Y') => plain(Field::Year),
            Some('C') => number(Field::Century, 2),
            Some('y') => number(Field::YearOfCentury, 2),
            Some('G') => plain(Field::IsoYear),
            Some('g') => number(Field::IsoYearOfCentury, 2),
            Some('m') => number(Field::Month, 2),
            Some('d') => number(Field::Day, 2),
            Some('e') => blank(Field::Day),
            Some('j') => number(Field::DayOfYear, 3),
            Some('u') => plain(Field::WeekdayFromMonday),
            Some('w') => plain(Field::WeekdayFromSunday),
            Some('U') => number(Field::WeekFromSunday, 2),
            Some('W') => number(Field::WeekFromMonday, 2),
            Some('V') => number(Field::IsoWeek, 2),
            Some('H') => number(Field::Hour, 2),
            Some('k') => blank(Field::Hour),
            Some('I') => number(Field::HourOfHalf, 2),
            Some('l') => blank(Field::HourOfHalf),
            Some('M') => number(Field::Minute, 2),
            Some('S') => number(Field::Second, 2),
            Some('s') => plain(Field::Epoch),
            Some('a') => Piece::Name(Name::WeekdayShort),
            Some('A') => Piece::Name(Name::Weekday),
            Some('b' | 'h') => Piece::Name(Name::MonthShort),
            Some('B') => Piece::Name(Name::Month),
            Some('p') => Piece::Name(Name::HalfUpper),
            Some('P') => Piece::Name(Name::HalfLower),
            Some('f') => Piece::Fraction(9),
            Some('z') => Piece::Text("+0000".into()),
            Some('Z') => Piece::Text("UTC".into()),
            Some('%') => Piece::Text("%".into()),
            Some('t') => Piece::Text("\t".into()),
            Some('D' | 'x' | 'F' | 'R' | 'T' | 'X' | 'r' | 'c') => {
                read(expanded(letter), pieces)?;
                rest = letters.as_str();
                continue;
            }
            Some('E') => {
                // Seconds with decimals, in one.
                let digits = digits(letters.next());
                let (Some(digits), Some('S')) = (digits, letters.next()) else {
                    return Err("%START_TIME%: of %E there is %E1S to %E9S alone".to_owned());
                };
                pieces.extend([number(Field::Second, 2), Piece::Text(".".into())]);
                Piece::Fraction(usize::try_from(digits).unwrap_or(9))
            }
            other => match (digits(other), letters.next()) {
                (Some(digits), Some('f')) => Piece::Fraction(usize::try_from(digits).unwrap_or(9)),
                _ => {
                    let shown: String = other.into_iter().collect();
                    return Err(format!(
                        "%START_TIME%: %{} is not known; write strftime's letters, %s for seconds since 1970, %3f \
                         for milliseconds",
                        shown.escape_debug()
                    ));
                }
            },
        };
        pieces.push(piece);
        rest = letters.as_str();
    }
    push_text(rest, pieces);
    if pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains(['\r', '\n', '\0']))) {
        return Err("%START_TIME%: the format holds a line end".to_owned());
    }
    Ok(())
}

/// Letters that stand for several others.
fn expanded(letter: Option<char>) -> &'static str {
    match letter {
        Some('D' | 'x') => "%m/%d/%y",
        Some('F') => "%Y-%m-%d",
        Some('R') => "%H:%M",
        Some('r') => "%I:%M:%S %p",
        Some('c') => "%a %b %e %H:%M:%S %Y",
        _ => "%H:%M:%S",
    }
}

fn push_text(text: &str, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.into()));
    }
}

fn push_number(number: u64, pad: Pad, out: &mut Vec<u8>) {
    match pad {
        Pad::Zeros(width) => out.extend_from_slice(&digits_of(number, width)),
        Pad::Blank => {
            if number < 10 {
                out.push(b' ');
            }
            out.extend_from_slice(&digits_of(number, 1));
        }
        Pad::Nothing => out.extend_from_slice(&digits_of(number, 1)),
    }
}

/// The decimal digits of a number, at least so many.
fn digits_of(number: u64, width: usize) -> smallvec::SmallVec<[u8; 20]> {
    let mut digits = smallvec::SmallVec::new();
    let mut rest = number;
    while rest > 0 || digits.len() < width.max(1) {
        digits.push(b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0)));
        rest /= 10;
    }
    digits.reverse();
    digits
}

/// A moment of the calendar, in UTC.
struct Time {
    epoch: u64,
    nanos: u64,
    year: u64,
    month: u64,
    day: u64,
    /// From 0.
    day_of_year: u64,
    /// From Sunday, 0.
    weekday: u64,
    second_of_day: u64,
}

#[allow(clippy::arithmetic_side_effects)] // the largest number is that of the nanoseconds in 584 years
impl Time {
    fn of(unix_nanos: u64) -> Self {
        const SECONDS_A_DAY: u64 = 86_400;
        let (epoch, nanos) = (unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000);
        let days = epoch / SECONDS_A_DAY;
        let mut year = 1970;
        let mut day_of_year = days;
        while day_of_year >= days_of(year) {
            day_of_year -= days_of(year);
            year += 1;
        }
        let mut month = 1;
        let mut day = day_of_year;
        while day >= days_of_month(year, month) {
            day -= days_of_month(year, month);
            month += 1;
        }
        // The first day of 1970 was a Thursday.
        let weekday = (days + 4) % 7;
        let second_of_day = epoch % SECONDS_A_DAY;
        Self { epoch, nanos, year, month, day: day + 1, day_of_year, weekday, second_of_day }
    }

    fn number(&self, field: Field) -> u64 {
        let hour = self.second_of_day / 3600;
        let from_monday = (self.weekday + 6) % 7;
        match field {
            Field::Year => self.year,
            Field::Century => self.year / 100,
            Field::YearOfCentury => self.year % 100,
            Field::IsoYear => self.iso_week().0,
            Field::IsoYearOfCentury => self.iso_week().0 % 100,
            Field::Month => self.month,
            Field::Day => self.day,
            Field::DayOfYear => self.day_of_year + 1,
            Field::WeekdayFromMonday => from_monday + 1,
            Field::WeekdayFromSunday => self.weekday,
            Field::WeekFromSunday => (self.day_of_year + 7 - self.weekday) / 7,
            Field::WeekFromMonday => (self.day_of_year + 7 - from_monday) / 7,
            Field::IsoWeek => self.iso_week().1,
            Field::Hour => hour,
            Field::HourOfHalf => (hour + 11) % 12 + 1,
            Field::Minute => self.second_of_day / 60 % 60,
            Field::Second => self.second_of_day % 60,
            Field::Epoch => self.epoch,
        }
    }

    /// Year and number of the week by ISO 8601: the one that its Thursday is in.
    fn iso_week(&self) -> (u64, u64) {
        let from_monday = (self.weekday + 6) % 7;
        // The day of the year of this week's Thursday, and three more lest it be negative.
        let thursday = self.day_of_year + 6 - from_monday;
        if thursday < 3 {
            let last = days_of(self.year - 1) + thursday - 3;
            (self.year - 1, last / 7 + 1)
        } else if thursday - 3 >= days_of(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, (thursday - 3) / 7 + 1)
        }
    }

    fn push_name(&self, name: Name, out: &mut Vec<u8>) {
        let of = |names: &[&'static str], place: u64| {
            usize::try_from(place).ok().and_then(|place| names.get(place).copied()).unwrap_or_default()
        };
        let (weekday, month) = (of(&WEEKDAYS, self.weekday), of(&MONTHS, self.month - 1));
        let afternoon = self.second_of_day >= 43_200;
        let text = match name {
            Name::Weekday => weekday,
            Name::WeekdayShort => weekday.get(..3).unwrap_or_default(),
            Name::Month => month,
            Name::MonthShort => month.get(..3).unwrap_or_default(),
            Name::HalfUpper if afternoon => "PM",
            Name::HalfUpper => "AM",
            Name::HalfLower if afternoon => "pm",
            Name::HalfLower => "am",
        };
        out.extend_from_slice(text.as_bytes());
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: &str, unix_nanos: u64) -> String {
        let mut out = Vec::new();
        TimeFormat::parse(format).unwrap().write(unix_nanos, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// As `date -u` of GNU writes them.
    #[test]
    fn every_letter_is_as_strftime_writes_it() {
        const AT: u64 = 1_796_112_943_014_232_000; // Tuesday, 1 December 2026, 08:15:43
        let rows = [
            ("", "2026-12-01T08:15:43.014Z"),
            ("%Y/%m/%dT%H:%M:%S%z %s", "2026/12/01T08:15:43+0000 1796112943"),
            ("%s.%3f %6f %f %1f", "1796112943.014 014232 014232000 0"),
            ("%C %y %e %j %k|%l|%I|%p|%P", "20 26  1 335  8| 8|08|AM|am"),
            ("%a %A %b %h %B", "Tue Tuesday Dec Dec December"),
            ("%D %x %F %R %T %X", "12/01/26 12/01/26 2026-12-01 08:15 08:15:43 08:15:43"),
            ("%r, %c", "08:15:43 AM, Tue Dec  1 08:15:43 2026"),
            ("%U %W %V %G %g %u %w", "48 48 49 2026 26 2 2"),
            ("%Z %% %E6S x", "UTC % 43.014232 x"),
        ];
        for (format, expected) in rows {
            assert_eq!(written(format, AT), expected, "{format}");
        }
    }

    #[test]
    fn days_that_are_easily_got_wrong() {
        let rows = [
            (0, "1970-01-01 001 Thu 1970-W01 00 12 AM"),
            (951_782_400, "2000-02-29 060 Tue 2000-W09 09 12 AM"),
            (1_735_646_400, "2024-12-31 366 Tue 2025-W01 52 12 PM"),
            (1_609_459_199, "2020-12-31 366 Thu 2020-W53 52 11 PM"),
            (1_609_459_200, "2021-01-01 001 Fri 2020-W53 00 12 AM"),
            (4_107_542_400, "2100-03-01 060 Mon 2100-W09 09 12 AM"),
            (1_796_169_600, "2026-12-02 336 Wed 2026-W49 48 12 AM"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(written("%F %j %a %G-W%V %U %I %p", seconds * 1_000_000_000), expected);
        }
        assert_eq!(written("%F", u64::MAX), "2554-07-21");
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for bad in ["%q", "%", "%0f", "%n", "%E*S", "%E3f", "a\nb", "%é"] {
            assert!(TimeFormat::parse(bad).is_err(), "{bad:?}");
        }
    }
}
