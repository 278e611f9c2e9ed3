# Has the resident carry out a hook, as client.py does, in a Perl: that starts in a fifth of a Python's time
# (decision 070). An entry of `lastgood install` runs it by `do`, having set @by to the words that start the
# program, and @at to the folder of the package; @ARGV is the entry that starts Python. Whatever is not as
# expected here, it returns, and that is started in its place, with the standard input that was read.
#
# No module is loaded, which would take longer than all else, and nothing is done under a name of a person's:
# so numbers stand for what Socket and Errno call them on the machines for which `install` enters this.

my ($PROTOCOL, $SOCKET, $LARGEST, $LONGEST_NAME) = (4, 'resident.sock', 4 << 20, 100);
my ($DECLINED, $DONE, $BROKEN) = ('d', 'a', 'b');
# In seconds, as in client.py: until it greets, between looks whether it was stopped, after Ctrl-C.
my ($GREETING, $LOOK, $INTERRUPTED) = (0.05, 0.5, 5);
my ($AF_UNIX, $SOCK_STREAM, $SOCK_NONBLOCK, $SOL_SOCKET, $SO_PEERCRED) = (1, 1, 2048, 1, 17);
my ($EINTR, $EAGAIN, $EPIPE, $TIOCGWINSZ) = (4, 11, 32, 0x5413);
# The exit code where the output cannot be written.
my $STORAGE = 1;
# What an empty pipe takes at once, however few pages a user may have in pipes.
my $PIPE = 4096;

my $interrupted = 0;

# What is to be waited for: a file to be read, or to be written; true when it can be.
sub waited {
    my ($file, $is_written, $seconds) = @_;
    my $bits = '';
    vec($bits, fileno $file, 1) = 1;
    while (!$interrupted) {
        my $found = $bits;
        my $ready = $is_written ? select(undef, $found, undef, $seconds) : select($found, undef, undef, $seconds);
        return $ready > 0 if $ready >= 0;
        return if $! != $EINTR;
    }
    return;
}

# So many bytes, undef if fewer come, or none for some seconds.
sub received {
    my ($socket, $length, $seconds) = @_;
    my $found = '';
    while (length $found < $length) {
        return if !waited($socket, 0, $seconds);
        my $count = sysread $socket, $found, $length - length $found, length $found;
        next if !defined $count && ($! == $EINTR || $! == $EAGAIN);
        return if !$count;
    }
    return $found;
}

# True once all is written.
sub written {
    my ($file, $content, $seconds) = @_;
    for (my $place = 0; $place < length $content;) {
        my $count = syswrite $file, $content, length($content) - $place, $place;
        if (defined $count) { $place += $count }
        elsif ($! == $EAGAIN) { return if !waited($file, 1, $seconds) }
        elsif ($! != $EINTR) { return }
    }
    return 1;
}

# Where the resident would be; undef where more than a look is needed to know it.
sub socket_of {
    return if $^O ne 'linux' || exists $ENV{LASTGOOD_TRACE} || grep /^--store/, @_;
    my $store = $ENV{LASTGOOD_STORE};
    if (defined $store && $store ne '') {
        return $store =~ /^~|\.\./ ? undef : "$store/$SOCKET";
    }
    my $kept = $ENV{XDG_STATE_HOME};
    if (!defined $kept || $kept !~ m{^/}) {
        return if !defined $ENV{HOME} || $ENV{HOME} !~ m{^/};
        $kept = "$ENV{HOME}/.local/state";
    }
    return "$kept/lastgood/$SOCKET";
}

# All that comes on standard input, and whether that was all.
sub input {
    my $found = '';
    while (1) {
        my $count = sysread STDIN, $found, 1 << 16, length $found;
        if (defined $count) { return ($found, 1) if !$count }
        elsif ($! == $EAGAIN) { waited(*STDIN, 0, undef) }
        elsif ($! != $EINTR) { return ($found, 0) }
    }
}

sub connected {
    my ($place) = @_;
    my $folder;
    if (length $place > $LONGEST_NAME) {
        opendir $folder, $place =~ s{/[^/]*$}{}r or return;
        $place = '/proc/self/fd/' . fileno($folder) . "/$SOCKET";
    }
    # One that has to wait is busy.
    socket my $socket, $AF_UNIX, $SOCK_STREAM | $SOCK_NONBLOCK, 0 or return;
    connect $socket, pack 'S a*', $AF_UNIX, $place or return;
    return $socket;
}

# The width of a terminal, 0 of one without; -1 of what is none.
sub width {
    my ($file) = @_;
    return -1 if !-t $file;
    my $size = "\0" x 8;
    return ioctl($file, $TIOCGWINSZ, $size) ? unpack 'x2 S', $size : 0;
}

# What the resident is told; undef where nothing can be.
sub question {
    my ($id, $words, $given) = @_;
    my $folder = readlink '/proc/self/cwd';
    return if !defined $folder || $folder !~ m{^/} || $folder =~ / \(deleted\)$/;
    my @started = (($by[0] eq $ARGV[0] ? () : $ARGV[0]), @by, @$words);
    my $told = join "\0", $id, join(' ', map width($_), *STDIN, *STDOUT, *STDERR), $folder,
        scalar @$words, scalar @started, $ARGV[0], @$words, @started, map "$_=$ENV{$_}", keys %ENV;
    my $asked = pack('N2', 0, length $told) . $told . $given;
    return pack('N2', 0, length $asked) . $asked;
}

# What it answers: as `asked` in client.py.
sub asked {
    my ($place, $id, $words, $given) = @_;
    my $socket = connected($place);
    return $DECLINED if !$socket || fileno $socket < 3;
    my $content = question($id, $words, $given);
    my $peer = getsockopt $socket, $SOL_SOCKET, $SO_PEERCRED;
    return $DECLINED if !defined $content || length $content > $LARGEST || length $peer != 12;
    my ($pid, $user) = unpack 'i I', $peer;
    return $DECLINED if $user != $> || !is_ours($socket);
    local $SIG{INT} = sub { $interrupted = 1 } if ($SIG{INT} || '') ne 'IGNORE';
    my $is_sent = written($socket, $content, $GREETING);
    1 while $is_sent && !$interrupted && !waited($socket, 0, $LOOK) && !is_stopped($pid);
    my $answer = $is_sent && !$interrupted ? framed($socket, $LOOK) : undef;
    return $interrupted ? interrupted($socket) : defined $answer ? $answer : $BROKEN;
}

# Whether it greets as one that is of this very package: by its folder one lastgood is told from another.
# The resident looks itself, to the nanosecond, whether that is as when it began; here are whole seconds.
sub is_ours {
    my ($socket) = @_;
    my $said = '';
    while ($said !~ /\n./s) {
        return if length $said > 999 || !waited($socket, 0, $GREETING) || !sysread $socket, $said, 999, length $said;
    }
    my ($device, $inode, $changed) = (stat $at[0])[0, 1, 9];
    return $said =~ /^lastgood resident $PROTOCOL \S+ \d+ (\d+) (\d+) (\d+)\d{9}\n.$/s
        && $1 eq $device && $2 eq $inode && $3 eq $changed;
}

# The rest of what it says, without its length; undef if that does not come.
sub framed {
    my ($socket, $seconds) = @_;
    my $length = received($socket, 8, $seconds);
    return defined $length ? received($socket, unpack('x4 N', $length), $seconds) : undef;
}

# What it says of a hook that was interrupted: it stops, and tells how far it came. Else this ends as Ctrl-C does.
sub interrupted {
    my ($socket) = @_;
    $interrupted = 0;
    shutdown $socket, 1;
    my $answer = framed($socket, $INTERRUPTED);
    return $answer if defined $answer && $answer =~ /^$DONE/;
    $SIG{INT} = 'DEFAULT';
    kill 'INT', $$;
    exit 130;
}

sub is_stopped {
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or return 1;
    return <$file> =~ /.*\) [Tt]/s;
}

# Writes what it said to where that belongs, and returns the exit code.
sub told {
    my ($answer) = @_;
    my ($place, %is_silent) = 2;
    while ($place < length $answer) {
        my ($stream, $length) = unpack 'C N', substr $answer, $place, 5;
        my $file = $stream == 1 ? *STDOUT : *STDERR;
        if (!$is_silent{$stream} && !written($file, substr($answer, $place + 5, $length), undef)) {
            my ($number, $why) = ($! + 0, "$!");
            $is_silent{$stream} = 1;
            if ($stream == 1 && $number != $EPIPE) {
                written(*STDERR, "lastgood: the output could not be written: $why\n", undef);
                return $STORAGE;
            }
        }
        $place += 5 + $length;
    }
    return ord substr $answer, 1, 1;
}

# Has standard input be what was read from it; beyond what a pipe takes, a process stays that writes it, or a file
# without a name holds it where no process can be added.
sub hand_on {
    my ($given) = @_;
    pipe my $reading, my $writing or return;
    my $is_short = length $given <= $PIPE;
    my $writer;
    $writer = fork if !$is_short;
    if (defined $writer && !$writer) {
        close $_ for $reading, *STDIN, *STDOUT, *STDERR;
        $SIG{PIPE} = 'DEFAULT';
        written($writing, $given, undef);
        exit;
    }
    if (!$is_short && !defined $writer) {
        open $reading, '+>', undef or return;
        $writing = $reading;
    }
    written($writing, $given, undef) if !defined $writer;
    sysseek $reading, 0, 0;
    open STDIN, '<&', $reading;
}

sub main {
    my $first = 0;
    $first++ until $first == @ARGV || $ARGV[$first] eq 'hook';
    my @words = @ARGV[$first .. $#ARGV];
    my $place = socket_of(@words);
    # Where a standard stream is closed, ours would be taken for it.
    return if !defined $place || !-e $place || grep !-e $_, *STDIN, *STDOUT, *STDERR;
    open my $random, '<:raw', '/dev/urandom' or return;
    return if sysread($random, my $drawn, 8) != 8;
    my $id = unpack 'H*', $drawn;
    local $SIG{PIPE} = 'IGNORE';
    my ($given, $is_all) = input();
    my $answer = $is_all ? asked($place, $id, \@words, $given) : $DECLINED;
    exit told($answer) if $answer =~ /^$DONE/;
    # It is the checkpoint that it may have made before it broke down, of which nothing is made twice.
    $ENV{LASTGOOD_PROPOSED} = $id if $answer =~ /^$BROKEN/;
    hand_on($given) if $is_all || length $given;
}

delete @ENV{qw(PERL_BADLANG PERL_SIGNALS PERL_UNICODE)};    # set by the entry, for this Perl
main();
